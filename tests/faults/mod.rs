//! Faults at every command, and dropped futures.

pub(crate) mod cancel_safety;
pub(crate) mod cancellation;
pub(crate) mod error_kinds;
pub(crate) mod exactly_once;
mod killed_plans;
pub(crate) mod router;
pub(crate) mod table;
pub(crate) mod transaction_bounds;
