//! Points of a plane, of space or of the earth.

use crate::number::ordered_bits;

/// The coordinate reference system of a point. Closed: openCypher has these four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Crs {
    /// WGS 84: longitude and latitude in degrees.
    Wgs84 = 0,
    /// WGS 84: longitude, latitude and height in metres.
    Wgs84Height = 1,
    /// Cartesian plane.
    Cartesian = 2,
    /// Cartesian space.
    Cartesian3d = 3,
}

impl Crs {
    /// The system's number in the EPSG registry, which other databases use too.
    pub fn srid(self) -> i64 {
        match self {
            Self::Wgs84 => 4326,
            Self::Wgs84Height => 4979,
            Self::Cartesian => 7203,
            Self::Cartesian3d => 9157,
        }
    }

    /// The system with this number.
    pub fn from_srid(srid: i64) -> Option<Self> {
        Self::ALL.into_iter().find(|crs| crs.srid() == srid)
    }

    /// The system's name in maps and messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::Wgs84 => "wgs-84",
            Self::Wgs84Height => "wgs-84-3d",
            Self::Cartesian => "cartesian",
            Self::Cartesian3d => "cartesian-3d",
        }
    }

    /// The system with this name, ignoring case.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|crs| crs.name().eq_ignore_ascii_case(name))
    }

    /// Whether points have a third coordinate.
    pub fn has_z(self) -> bool {
        matches!(self, Self::Wgs84Height | Self::Cartesian3d)
    }

    /// Every system.
    pub const ALL: [Self; 4] = [
        Self::Wgs84,
        Self::Wgs84Height,
        Self::Cartesian,
        Self::Cartesian3d,
    ];
}

/// A point. In WGS 84 systems `x` is the longitude and `y` the latitude, in degrees; `z` is 0 in
/// two-dimensional systems. Closed: a point has these coordinates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// The coordinate reference system.
    pub crs: Crs,
    /// First coordinate, or longitude.
    pub x: f64,
    /// Second coordinate, or latitude.
    pub y: f64,
    /// Third coordinate, or height.
    pub z: f64,
}

impl Point {
    /// Whether longitude and latitude are within their ranges; points of other systems always are.
    pub fn is_in_range(&self) -> bool {
        !matches!(self.crs, Crs::Wgs84 | Crs::Wgs84Height)
            || ((-180.0..=180.0).contains(&self.x) && (-90.0..=90.0).contains(&self.y))
    }
}

/// The sort key of points: system, then coordinates.
pub(crate) fn point_rank(point: &Point) -> (u8, u64, u64, u64) {
    (
        point.crs as u8,
        ordered_bits(point.x),
        ordered_bits(point.y),
        ordered_bits(point.z),
    )
}
