//! Tasks that add children to their parents.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use futures::TryStreamExt;
use mongo_patterns::embedded::Finding;
use mongodb::Database;
use mongodb::bson::Document;

use super::calls::{Fate, Fates, Load};
use support::common::all;
use support::embedded::{Patrons, address, patron};

/// The bound of the addresses of a patron, and their number.
const OF_A_PATRON: i64 = 20;

#[derive(Debug)]
pub struct Addresses {
    load: Arc<Load>,
    next: AtomicI64,
    fates: Fates,
}

impl Addresses {
    pub fn new(load: &Arc<Load>) -> Arc<Self> {
        Arc::new(Self {
            load: Arc::clone(load),
            next: AtomicI64::new(0),
            fates: Fates::default(),
        })
    }

    pub fn repository(&self, database: &Database) -> Patrons {
        Patrons::builder(database.collection::<Document>("patron"))
            .children_field("addresses")
            .child_id_field("id")
            .max_children(OF_A_PATRON as u32)
            .build()
            .unwrap()
    }

    /// Adds children until the load stops, and retries each until it is known to be stored.
    pub async fn write(self: Arc<Self>, patrons: Patrons) {
        let mut inserted = None;
        while self.load.continues().await {
            let n = self.next.fetch_add(1, Ordering::Relaxed);
            let id = n / OF_A_PATRON;
            if inserted != Some(id) {
                let patron = patron(id, []);
                let insert = || patrons.insert(&patron);
                self.load.until_exists("embedded insert", insert).await;
                inserted = Some(id);
            }
            let child = address(n);
            let add = || patrons.add_child(id, &child);
            self.load.store("embedded add_child", n, add).await;
            self.fates.note(n, Fate::Acknowledged);
        }
    }

    /// Compares the stored children with the outcomes of the writers.
    pub async fn judge(&self, patrons: &Patrons) -> (usize, usize, usize) {
        let mut stored = Vec::new();
        for patron in all(&patrons.collection()).await {
            for address in patron.get_array("addresses").unwrap() {
                stored.push(address.as_document().unwrap().get_i64("id").unwrap());
            }
        }
        let findings: Vec<Finding> = patrons.verify().stream().try_collect().await.unwrap();
        assert_eq!(findings, []);
        self.fates.judge("embedded add_child", stored)
    }
}
