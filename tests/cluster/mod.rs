//! Tests on other deployments: three nodes, secured servers.

pub(crate) mod load;
pub(crate) mod secured;
pub(crate) mod secured_support;
#[cfg(feature = "cluster")]
mod sharded;
pub(crate) mod three_nodes;
pub(crate) mod users;
