//! Where rows of several threads carry the position that a single thread would have given them.

use isomer_plan::{
    Plan,
    expr::SlotId,
    physical::{InThread, Op, OpId},
};

use super::Child;

/// The slot that holds the positions of the rows of the exchange `id`, which the sort above reads.
pub(super) fn position_slot(plan: &Plan, id: OpId) -> SlotId {
    SlotId((plan.slots.len() + id.index()) as u32)
}

/// The same slot for a sort with this input, if its rows may have positions.
pub(super) fn position_slot_of(input: &Child) -> Option<SlotId> {
    let op_ref = input.op_ref();
    match op_ref.op() {
        Op::Exchange(exchange) => match exchange.in_thread {
            InThread::Sort | InThread::Top { .. } => Some(position_slot(&op_ref.plan, op_ref.id)),
            InThread::Nothing | InThread::Distinct(_) => None,
        },
        _ => None,
    }
}
