//! A lower bound of the remaining weight, for A* (Hart, Nilsson and Raphael 1968).
//!
//! Nodes have points, and a relationship weighs at least `perUnit` for each unit of the straight distance between its
//! ends. So the distance to the target, in these units, never exceeds the weight of the lightest path there. Every
//! relationship that a search expands is checked against that bound; a lighter one is an error, because the path found
//! might not be the lightest.

use std::sync::Arc;

use isomer_data::GraphRead;
use isomer_value::{Crs, NodeId, Point, PropId, Value};
use rustc_hash::FxHashMap;

use super::{
    CallContext,
    settings::{Settings, refused},
};
use crate::{
    error::{Result, shown},
    function::point_distance,
    names::property_number,
};

/// Relative rounding error of weights, and of distances on the earth.
const ROUNDING: f64 = 1e-9;
/// Relative rounding error of distances in a plane or in space, a few bits: it keeps the estimate consistent even for a
/// step of weight 0 that is seen from far away.
const PLAIN_ROUNDING: f64 = 8.0 * f64::EPSILON;

/// Positions of nodes, and the estimated distances to the target.
pub(super) struct Estimate {
    procedure: Arc<str>,
    property: Arc<str>,
    id: Option<PropId>,
    per_unit: f64,
    target: Point,
    known: FxHashMap<NodeId, f64>,
}

impl Estimate {
    /// From the options `position` and `perUnit`; none if the first is not given.
    pub(super) fn of(
        procedure: &Arc<str>,
        settings: &Settings<'_>,
        target: NodeId,
        call: &mut CallContext<'_>,
    ) -> Result<Option<Self>> {
        let Some(property) = settings.name("position")? else {
            if settings.is_given("perUnit") {
                return Err(refused(
                    procedure,
                    "`perUnit` says what a unit of distance weighs: name the property of the nodes that holds their `position`",
                ));
            }
            return Ok(None);
        };
        let mut made = Self {
            procedure: procedure.clone(),
            id: property_number(call.transaction(), &property),
            property,
            per_unit: settings.float("perUnit", 1.0, 0.0..=f64::MAX)?,
            target: Point {
                crs: Crs::Cartesian,
                x: 0.0,
                y: 0.0,
                z: 0.0,
            },
            known: FxHashMap::default(),
        };
        let places = made.places(&[target], call)?;
        made.target = places[0];
        if made.target.crs == Crs::Wgs84Height {
            return Err(refused(
                procedure,
                "`position` takes points without a height, or cartesian ones: there is no shortest distance between geographic points in the air",
            ));
        }
        Ok(Some(made))
    }

    /// The points of nodes.
    fn places(&self, nodes: &[NodeId], call: &mut CallContext<'_>) -> Result<Vec<Point>> {
        let mut column = [Vec::with_capacity(nodes.len())];
        match self.id {
            Some(id) => call.reader().node_properties(nodes, &[id], &mut column)?,
            None => column[0].resize(nodes.len(), Value::Null),
        }
        let [values] = column;
        let place = |(node, value): (&NodeId, Value)| match value {
            Value::Point(point) => Ok(*point),
            other => Err(refused(
                &self.procedure,
                format!(
                    "node {node} has {} in `{}`: every node on the way needs a point there",
                    shown(&other),
                    self.property
                ),
            )),
        };
        nodes.iter().zip(values).map(place).collect()
    }

    /// The estimates from `from` and from the ends of its steps, each given with its weight: written to `left` in their
    /// order.
    pub(super) fn of_steps(
        &mut self,
        from: NodeId,
        steps: &[(NodeId, f64)],
        left: &mut Vec<f64>,
        call: &mut CallContext<'_>,
    ) -> Result<()> {
        let mut new: Vec<NodeId> = steps.iter().map(|(node, _)| *node).collect();
        new.push(from);
        new.retain(|node| !self.known.contains_key(node));
        new.sort_unstable();
        new.dedup();
        if !new.is_empty() {
            let before = self.known.capacity();
            for (node, place) in new.iter().zip(self.places(&new, call)?) {
                let left = self.remaining(*node, &place)?;
                self.known.insert(*node, left);
            }
            // Kept for the other searches of this call.
            let more = self.known.capacity() - before;
            call.hold(more * (size_of::<(NodeId, f64)>() + 1))?;
        }
        let own = self.known.get(&from).copied().unwrap_or_default();
        let rounding = match self.target.crs {
            Crs::Wgs84 | Crs::Wgs84Height => ROUNDING,
            Crs::Cartesian | Crs::Cartesian3d => PLAIN_ROUNDING,
        };
        left.clear();
        for (node, weight) in steps {
            let there = self.known.get(node).copied().unwrap_or_default();
            if own - there > weight + weight * ROUNDING + own * rounding {
                return Err(refused(
                    &self.procedure,
                    format!(
                        "the step from node {from} to node {node} weighs {weight} and comes {} nearer to the target, at {} for each unit of distance: \
                         lower `perUnit` so that no relationship weighs less than the distance of its ends, or leave `position` out",
                        own - there,
                        self.per_unit
                    ),
                ));
            }
            left.push(there);
        }
        Ok(())
    }

    fn remaining(&self, node: NodeId, place: &Point) -> Result<f64> {
        let distance = point_distance(place, &self.target).ok_or_else(|| {
            refused(
                &self.procedure,
                format!(
                    "node {node} has a point of {} in `{}`, the target one of {}: distances need one system",
                    place.crs.name(),
                    self.property,
                    self.target.crs.name()
                ),
            )
        })?;
        let left = distance * self.per_unit;
        if left.is_finite() {
            Ok(left)
        } else {
            Err(refused(
                &self.procedure,
                format!("the distance from node {node} to the target is invalid: {distance}"),
            ))
        }
    }
}
