//! The compiled filters of one core: each expression that its pulls ask for is compiled once.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::rc::Rc;

use remoting::text::Text;

use super::{Filter, FilterError};

/// Expressions kept. Beyond it the one that was not asked for for the longest time is dropped, and compiled again when
/// it is asked for.
const FILTERS_MAX: usize = 1000;

/// An expression with what it compiled to.
struct Known {
    compiled: Result<Rc<Filter>, FilterError>,
    /// The count of questions at the last one.
    asked_at: u64,
}

/// Compiled expressions, wrong ones included.
#[derive(Default)]
pub(crate) struct Filters {
    by_expression: RefCell<HashMap<Text, Known>>,
    questions: Cell<u64>,
    /// Wrong expressions that heartbeats told, since the start.
    wrong: Cell<u64>,
}

impl Filters {
    /// The filter of an expression.
    ///
    /// # Errors
    /// When the expression is wrong.
    pub(crate) fn get(&self, expression: &Text) -> Result<Rc<Filter>, FilterError> {
        let now = self.questions.get() + 1;
        self.questions.set(now);
        let mut by_expression = self.by_expression.borrow_mut();
        if let Some(known) = by_expression.get_mut(expression) {
            known.asked_at = now;
            return known.compiled.clone();
        }
        if by_expression.len() >= FILTERS_MAX {
            let oldest = by_expression.iter().min_by_key(|(_, known)| known.asked_at).map(|(text, _)| text.clone());
            by_expression.remove(&oldest.expect("a full cache has an oldest entry"));
        }
        let compiled = Filter::compile(expression).map(Rc::new);
        // The key must not keep the frame alive that brought it.
        by_expression.insert(expression.detached(), Known { compiled: compiled.clone(), asked_at: now });
        compiled
    }

    /// Looks at an expression that a heartbeat brought: it is compiled before the first pull needs it, and a wrong one
    /// is told to the operator, once as long as it is kept.
    pub(crate) fn prepare(&self, group: &str, topic: &str, expression: &Text) {
        let is_known = self.by_expression.borrow().contains_key(expression);
        let Err(error) = self.get(expression) else { return };
        if !is_known {
            self.wrong.set(self.wrong.get() + 1);
            crate::log::warn(format_args!(
                "group {group} gets nothing of topic {topic}: {error}; correct its subscription ({} such since the \
                 start)",
                self.wrong.get()
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_asked_for_goes_first() {
        let filters = Filters::default();
        let expression = |number: usize| Text::from(format!("n = {number}"));
        for number in 0..FILTERS_MAX {
            filters.get(&expression(number)).expect("an expression");
        }
        let first = filters.get(&expression(0)).expect("an expression");
        filters.get(&expression(FILTERS_MAX)).expect("an expression");
        let known = filters.by_expression.borrow();
        assert_eq!(known.len(), FILTERS_MAX);
        assert!(known.contains_key(&expression(0)) && !known.contains_key(&expression(1)));
        drop(known);
        assert!(Rc::ptr_eq(&first, &filters.get(&expression(0)).expect("an expression")), "compiled once");
    }

    #[test]
    fn wrong_expressions_are_counted_once() {
        let filters = Filters::default();
        for _ in 0..3 {
            filters.prepare("g", "T", &Text::from("n >> 5"));
            filters.prepare("g", "T", &Text::from("n > 5"));
        }
        assert_eq!(filters.wrong.get(), 1);
        assert!(filters.get(&Text::from("n >> 5")).is_err());
    }
}
