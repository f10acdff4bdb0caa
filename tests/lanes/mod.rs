//! Calls for one document wait for each other in the process, and dropped calls leave nothing behind that others wait for.

/// Defines a test for each of these operations.
macro_rules! each {
    ($check:ident; $($(#[$attribute:meta])* $test:ident: $operation:literal;)+) => {
        $(
            #[tokio::test]
            $(#[$attribute])*
            async fn $test() {
                $check(operation($operation)).await;
            }
        )+
    };
}

pub(crate) mod drain;
pub(crate) mod dropped_calls;
pub(crate) mod drops;
pub(crate) mod followers;
pub(crate) mod killed;
pub(crate) mod metrics;
pub(crate) mod pool;
pub(crate) mod process;
pub(crate) mod repositories;
pub(crate) mod sessions;
