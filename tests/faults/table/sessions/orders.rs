//! Calls of the reference pattern in a transaction of the caller.

use mongo_patterns::ErrorKind;
use mongo_patterns::reference::OnReferences;

use super::{IN, operation, transaction};
use crate::faults::table::operation::Operation;
use crate::faults::table::operation::Promise::{Atomic, Reads};
use crate::faults::table::reference;
use support::reference::{order, rename};

pub(in crate::faults::table) fn of_orders() -> Vec<Operation<reference::Sales>> {
    type M = reference::Sales;
    vec![
        operation::<M>(Atomic, "ReferenceRepository::insert", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.insert(&order(5, 1)).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "ReferenceRepository::insert_many", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.insert_many(&reference::two()).session(s).await
            }))
        })
        .retry_errors(&[ErrorKind::AlreadyExists]),
        operation::<M>(Atomic, "ReferenceRepository::set_reference", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.set_reference(1, 4).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "ReferenceRepository::clear_reference", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.clear_reference(1).session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "ReferenceRepository::add_reference_to", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let added = m.orders.add_reference_to(2, 4).field("products");
                added.session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "ReferenceRepository::remove_reference", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let removed = m.orders.remove_reference(2, 1).field("products");
                removed.session(s).await.map(drop)
            }))
        }),
        operation::<M>(Atomic, "ReferenceRepository::update_source", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                let updated = m.orders.update_source(1, rename("Cas")).session(s).await;
                updated.map(drop)
            }))
        }),
        operation::<M>(Atomic, "ReferenceRepository::delete_source", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.delete_source(4).session(s).await.map(drop)
            }))
        }),
        operation::<M>(
            Atomic,
            "ReferenceRepository::delete_source",
            "keeping copies, in the caller's transaction",
            |m| {
                Box::pin(transaction(m.stored.client(), async |s| {
                    let deleted = m.orders.delete_source(1).on_references(OnReferences::KeepCopy);
                    deleted.session(s).await.map(drop)
                }))
            },
        ),
        operation::<M>(Reads, "ReferenceRepository::get", IN, |m| {
            Box::pin(transaction(m.stored.client(), async |s| {
                m.orders.get(2).max_staleness(0).session(s).await
            }))
        }),
    ]
}
