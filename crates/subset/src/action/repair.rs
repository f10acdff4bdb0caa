//! Verification, repair and refreshes.

use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::verify::{Repair, Verify, scan};
#[allow(unused_imports)] // the links of the documentation use the kinds
use mongo_patterns_core::{DocumentId, ErrorKind::*, IntoId, Repository, Result, action, setters};

use crate::repair::finding::{Problem, Unrepaired};
use crate::repair::rebuild;
use crate::repair::scan::{find_problems, repairs};
use crate::repository::{Shared, SubsetRepository};
use crate::results::{Refreshed, RefreshedAll};
use crate::write;

impl<P, C> SubsetRepository<P, C> {
    /// Scans both collections for problems: first for stale parents, then for children whose parent does not exist.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = products.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns.
    ///
    /// Without its indexes, it finds only the children that prevent them: children of one parent with the same id, with
    /// their `_id`s in [`document_ids`](crate::Finding). Then [`IndexMissing`] is the last item.
    ///
    /// # Cost
    /// Two aggregations, and one or two round trips for each finding. The first reads all parents, and as many children of
    /// each as are embedded, or all with a total or figures. The second reads the parent field of all children. With a
    /// progress callback, one more for each 1000 parents.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }

    /// Repairs the findings of [`verify`](Self::verify), one by one: it refreshes stale subsets.
    ///
    /// It does not repair children without a parent, because only you know whether they or their parent are missing. Nor
    /// does it repair parents that embed children which are stored nowhere else: insert these children, or discard them by
    /// [`refresh`](Self::refresh).
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # async fn f(products: mongo_patterns::subset::SubsetRepository<i32, i32>) -> mongo_patterns::Result<()> {
    /// let mut parents = products.repair().dry_run().stream();
    /// while let Some(repaired) = parents.try_next().await? {
    ///     for finding in &repaired.findings {
    ///         println!("{}: {}", finding.document_id, finding.problem);
    ///     }
    ///     if let Some(unrepaired) = repaired.unrepaired {
    ///         println!("not repaired: {unrepaired}");
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Cost
    /// As [`verify`](Self::verify), and as [`refresh`](Self::refresh) for each stale parent.
    ///
    /// # Cancel safety
    /// Each parent is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// - The errors of [`verify`](Self::verify).
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }

    /// Refreshes the subset of a parent from its children, after another program wrote them.
    ///
    /// The parent no longer embeds a child that is not stored.
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// products.children_collection().delete_many(doc! { "product_id": 1, "spam": true }).await?;
    /// let refreshed = products.refresh(1).await?;
    /// println!("{} reviews are left in the product", refreshed.embedded);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers: the parent is written only if no other client has written it since its children were
    /// read.
    ///
    /// # Cost
    /// Three round trips, and up to four more while other clients write to the parent. With a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or [figures](crate::SubsetRepositoryBuilder#figures) one more
    /// for each attempt.
    ///
    /// # Cancel safety
    /// The subset is either refreshed or unchanged. With [`discard_embedded`](Refresh::discard_embedded), children that are
    /// marked to be discarded may still be embedded. Call it again.
    ///
    /// # Errors
    /// - [`NotFound`]: the parent does not exist.
    /// - [`NotMigrated`]: the parent embeds children that are stored nowhere else: see
    ///   [`discard_embedded`](Refresh::discard_embedded).
    /// - [`Contention`]: other clients were faster at each attempt.
    pub fn refresh(&self, parent: impl IntoId) -> Refresh<'_> {
        Refresh {
            shared: self.shared(),
            parent: DocumentId::new(parent),
            discard_embedded: false,
            session: None,
        }
    }

    /// Refreshes the subsets of all parents from their children, on the server. Parents without children get an empty
    /// subset.
    ///
    /// Use it after a bulk load or a bulk deletion of children. For another order, size or other embedded fields, use
    /// [`migrate_layout_from`](Self::migrate_layout_from).
    ///
    /// ```no_run
    /// # use mongo_patterns::subset::SubsetRepository;
    /// # use mongo_patterns::mongodb::bson::{Document, doc};
    /// # async fn f(products: SubsetRepository<Document, Document>) -> mongo_patterns::Result<()> {
    /// products.children_collection().delete_many(doc! { "spam": true }).await?;
    /// let refreshed = products.refresh_all().await?;
    /// println!("{} products were written concurrently", refreshed.rebuilt_individually);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Safe for concurrent writers: each parent is written only if no other client has written it since its children were
    /// read. Otherwise the call checks again, and refreshes stale parents one by one. This check can miss a wrong total or
    /// figure if a child of the parent is written at that moment: call it again later, or [`refresh`](Self::refresh).
    ///
    /// # Cost
    /// Two round trips: the settings, and an aggregation, which reads all parents and as many children of each as are
    /// embedded. If a parent is unmanaged, or other clients write: two more such aggregations, and five round trips for each
    /// parent that is still stale.
    ///
    /// # Cancel safety
    /// Each parent is either refreshed or unchanged, and the server may still execute the last command. Call it again: it
    /// refreshes the rest.
    ///
    /// # Errors
    /// - [`SettingsMismatch`]: the settings contradict the [catalog](mongo_patterns_core::catalog).
    /// - [`NotMigrated`]: a parent embeds children that are stored nowhere else: see
    ///   [`discard_embedded`](RefreshAll::discard_embedded). All other parents are refreshed.
    ///
    /// After an error of the driver, some parents are refreshed.
    pub fn refresh_all(&self) -> RefreshAll<'_> {
        RefreshAll {
            shared: self.shared(),
            discard_embedded: false,
        }
    }
}

action! {
    /// Refreshes a subset; returned by [`SubsetRepository::refresh`].
    pub struct Refresh<'a> {
        shared: &'a Shared,
        parent: Result<DocumentId>,
        discard_embedded: bool,
    }
    with session;

    /// Discards embedded children that are not in their collection and that no repository has embedded: leftovers of a
    /// subset that was maintained by hand.
    discard_embedded() => discard_embedded = true;

    "refresh" => Refreshed
}

impl Refresh<'_> {
    async fn execute(self) -> Result<Refreshed> {
        let parent = self.parent?.into_bson();
        let embedded = write::refresh(self.shared, parent, self.discard_embedded, self.session).await?;
        Ok(Refreshed { embedded })
    }
}

action! {
    /// Refreshes all subsets; returned by [`SubsetRepository::refresh_all`].
    pub struct RefreshAll<'a> {
        shared: &'a Shared,
        discard_embedded: bool,
    }

    /// Discards embedded children that are not in their collection and that no repository has embedded: leftovers of subsets
    /// that were maintained by hand.
    discard_embedded() => discard_embedded = true;

    "refresh_all" => RefreshedAll
}

impl RefreshAll<'_> {
    async fn execute(self) -> Result<RefreshedAll> {
        self.shared.ensure().require(&mut Conn::new()).await?;
        if self.discard_embedded {
            self.shared.check_indexes().await?;
            rebuild::discard_embedded(self.shared, &mut Conn::new()).await?;
        }
        rebuild::refresh_all(self.shared).await
    }
}
