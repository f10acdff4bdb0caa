//! BSON values: numbers and arrays of any type, equality and order as on the server, sizes, and reads of stored documents.

pub mod array;
pub mod bound;
pub mod number;
pub mod order;
pub(crate) mod same;
pub mod size;
pub mod stored;
