//! Patterns and labels.

use super::Printer;
use crate::ast::{
    Direction, Expr, Ident, LabelExpr, LabelExprKind, NodePattern, PathLength, PathMode,
    PathPattern, PathSelector, PatternLink, RelationshipPattern,
};

impl Printer {
    pub(super) fn path(&mut self, path: &PathPattern) {
        if let Some(variable) = &path.variable {
            self.variable(&variable.name);
            self.text(" = ");
        }
        let function = match path.selector {
            None => None,
            Some(PathSelector::ShortestPathFunction) => Some("shortestPath("),
            Some(PathSelector::AllShortestPathsFunction) => Some("allShortestPaths("),
            Some(selector) => {
                self.selector(selector);
                None
            }
        };
        match path.mode {
            None => {}
            Some(PathMode::Walk) => self.text("WALK "),
            Some(PathMode::Trail) => self.text("TRAIL "),
            Some(PathMode::Acyclic) => self.text("ACYCLIC "),
            Some(PathMode::Simple) => self.text("SIMPLE "),
        }
        if let Some(function) = function {
            self.text(function);
        }
        match &path.predicate {
            None => self.path_elements(path),
            Some(predicate) => self.path_group(path, Some(predicate)),
        }
        if function.is_some() {
            self.text(")");
        }
    }

    fn selector(&mut self, selector: PathSelector) {
        let text = match selector {
            PathSelector::Any(count) => format!("ANY {count} "),
            PathSelector::Shortest(count) => format!("SHORTEST {count} "),
            PathSelector::ShortestGroups(count) => format!("SHORTEST {count} GROUPS "),
            PathSelector::AllShortest => "ALL SHORTEST ".into(),
            PathSelector::ShortestPathFunction | PathSelector::AllShortestPathsFunction => return,
        };
        self.text(&text);
    }

    fn path_group(&mut self, path: &PathPattern, predicate: Option<&Expr>) {
        self.text("(");
        self.path_elements(path);
        self.optional_where(predicate);
        self.text(")");
    }

    fn path_elements(&mut self, path: &PathPattern) {
        self.node(&path.start);
        for step in &path.steps {
            match &step.link {
                PatternLink::Relationship(relationship) => self.relationship(relationship),
                PatternLink::Quantified(quantified) => {
                    self.path_group(&quantified.path, quantified.path.predicate.as_ref());
                    let max = quantified
                        .length
                        .max
                        .map_or(String::new(), |max| max.to_string());
                    self.text(&format!("{{{},{max}}}", quantified.length.min));
                }
            }
            self.node(&step.node);
        }
    }

    fn node(&mut self, node: &NodePattern) {
        self.text("(");
        self.element(
            node.variable.as_ref(),
            node.labels.as_ref(),
            None,
            node.properties.as_ref(),
            node.predicate.as_ref(),
        );
        self.text(")");
    }

    fn relationship(&mut self, relationship: &RelationshipPattern) {
        self.text(if relationship.direction == Direction::Incoming {
            "<-"
        } else {
            "-"
        });
        let has_detail = relationship.variable.is_some()
            || relationship.types.is_some()
            || relationship.length.is_some()
            || relationship.properties.is_some()
            || relationship.predicate.is_some();
        if has_detail {
            self.text("[");
            self.element(
                relationship.variable.as_ref(),
                relationship.types.as_ref(),
                relationship.length.as_ref(),
                relationship.properties.as_ref(),
                relationship.predicate.as_ref(),
            );
            self.text("]");
        }
        self.text(if relationship.direction == Direction::Outgoing {
            "->"
        } else {
            "-"
        });
    }

    fn element(
        &mut self,
        variable: Option<&Ident>,
        labels: Option<&LabelExpr>,
        length: Option<&PathLength>,
        properties: Option<&Expr>,
        predicate: Option<&Expr>,
    ) {
        let start = self.out.len();
        if let Some(variable) = variable {
            self.variable(&variable.name);
        }
        if let Some(labels) = labels {
            self.text(":");
            self.labels(labels);
        }
        if let Some(length) = length {
            self.length(length);
        }
        if let Some(properties) = properties {
            self.text(if self.out.len() > start { " " } else { "" });
            self.expr(properties);
        }
        if let Some(predicate) = predicate {
            self.text(if self.out.len() > start {
                " WHERE "
            } else {
                "WHERE "
            });
            self.expr(predicate);
        }
    }

    fn length(&mut self, length: &PathLength) {
        let text = match (length.min, length.max) {
            (1, None) => "*".into(),
            (min, None) => format!("*{min}.."),
            (min, Some(max)) if min == max => format!("*{min}"),
            (min, Some(max)) => format!("*{min}..{max}"),
        };
        self.text(&text);
    }

    pub(super) fn labels(&mut self, labels: &LabelExpr) {
        match &labels.kind {
            LabelExprKind::Name(name) => self.name(&name.name),
            LabelExprKind::Any => self.text("%"),
            LabelExprKind::Not(inner) => {
                self.text("!");
                self.label_part(
                    inner,
                    matches!(inner.kind, LabelExprKind::And(_) | LabelExprKind::Or(_)),
                );
            }
            LabelExprKind::And(parts) => {
                self.separated(parts, "&", |printer, part| {
                    printer.label_part(
                        part,
                        matches!(part.kind, LabelExprKind::And(_) | LabelExprKind::Or(_)),
                    );
                });
            }
            LabelExprKind::Or(parts) => {
                self.separated(parts, "|", |printer, part| {
                    printer.label_part(part, matches!(part.kind, LabelExprKind::Or(_)))
                });
            }
            LabelExprKind::Dynamic { names, any } => {
                self.text(if *any { "$any(" } else { "$(" });
                self.expr(names);
                self.text(")");
            }
        }
    }

    fn label_part(&mut self, part: &LabelExpr, in_parentheses: bool) {
        self.text(if in_parentheses { "(" } else { "" });
        self.labels(part);
        self.text(if in_parentheses { ")" } else { "" });
    }
}
