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
    /// See [`verify`](mongo_patterns_core::verify) for what is true of the verifications of all patterns.
    ///
    /// Without its indexes, it finds the children that prevent them: those of one parent with the same id, with their `_id`s in
    /// [`document_ids`](crate::Finding). Nothing else is checked then, and [`IndexMissing`] is the last item.
    ///
    /// # Cost
    /// Two aggregations: one reads all parents and as many children of each as are embedded, the other the parent field
    /// of all children. With a total or figures, the first also reads all children. One more round trip for each finding, and two
    /// for embedded children that are not stored.
    /// Without the indexes, one aggregation reads all children and groups them, on disk if needed. With a progress callback,
    /// which counts parents, one more for each 1000 parents, because the server then replies for each.
    ///
    /// # Errors
    /// [`SettingsMismatch`], [`IndexMissing`], and those of the driver, as the last item of the stream.
    pub fn verify(&self) -> Verify<'_, Problem> {
        let shared = self.shared();
        Verify::new(shared.ensure(), move |reporter| {
            scan(move |results| find_problems(shared, reporter, results))
        })
    }

    /// Repairs the findings of [`verify`](Self::verify), one by one: it refreshes stale subsets.
    ///
    /// It does not repair children without a parent, because only you know whether they or their parent are missing.
    /// Nor does it repair parents that embed children which are stored nowhere else: insert them, or discard them by
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
    /// That of [`verify`](Self::verify), and that of [`refresh`](Self::refresh) for each parent. A dry run takes one or two
    /// round trips for each stale parent.
    ///
    /// # Cancel safety
    /// Each parent is either repaired or unchanged. Call it again: it repairs the rest.
    ///
    /// # Errors
    /// Those of [`verify`](Self::verify), as the last item of the stream.
    pub fn repair(&self) -> Repair<'_, Problem, Unrepaired> {
        let shared = self.shared();
        Repair::new(shared.ensure(), |reporter, dry_run| repairs(shared, reporter, dry_run))
    }

    /// Refreshes the subset of a parent from its children, after another program wrote them. The parent no longer embeds a child
    /// that is not stored.
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
    /// Safe for concurrent writers, without a transaction: the parent is written only if no other client has written it
    /// since its children were read.
    ///
    /// # Cost
    /// Three round trips, and up to four more while other clients write to the parent. With a
    /// [total](crate::SubsetRepositoryBuilder::total_field) or
    /// [figures](crate::SubsetRepositoryBuilder#figures) one more each time, for up to sixteen attempts.
    ///
    /// # Cancel safety
    /// The subset is either refreshed or unchanged. With [`discard_embedded`](Refresh::discard_embedded), the children that
    /// only the parent has may be discarded and still be embedded. Call it again.
    ///
    /// # Errors
    /// [`NotFound`] when the parent does not exist, [`NotMigrated`] when it embeds children that are stored nowhere
    /// else (see [`discard_embedded`](Refresh::discard_embedded)), [`InvalidArgument`] for an invalid id,
    /// [`IndexMissing`], and [`Contention`] when other clients were faster at each attempt. If the outcome is unknown, call it again.
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
    /// Safe for concurrent writers: each parent is written individually, and only if no other client has written it
    /// since its children were read. If another client has, the aggregation fails and the call checks again: a second
    /// aggregation refreshes the rest, and a scan finds the parents that are still stale, which are refreshed one by one. The
    /// scan can miss a wrong total or figure if a child of the parent is written at that moment: call it again
    /// later, or [`refresh`](Self::refresh).
    ///
    /// # Cost
    /// Two round trips: the settings, and an aggregation, which reads all parents, and as many children of each as are
    /// embedded. It writes the stale parents. If a parent is unmanaged, or other clients write stale parents concurrently: two more such aggregations,
    /// of which the last one only reads, and five round trips for each parent that is still stale then.
    ///
    /// # Cancel safety
    /// Each parent is either refreshed or unchanged, and the server may still execute the last command. Call it again: it
    /// refreshes the rest.
    ///
    /// # Errors
    /// [`SettingsMismatch`], with nothing changed, when the settings contradict the
    /// [catalog](mongo_patterns_core::catalog). [`IndexMissing`], and those of the driver, with some parents refreshed. [`NotMigrated`] at the end, with all other
    /// parents refreshed, when a parent embeds children that are stored nowhere else (see
    /// [`discard_embedded`](RefreshAll::discard_embedded)).
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

    /// Discards embedded children that are not in their collection and that no repository has embedded. They are
    /// deleted: use it if they are leftovers of a subset that was maintained by hand.
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

    /// Discards embedded children that are not in their collection and that no repository has embedded. They are
    /// deleted: use it if they are leftovers of subsets that were maintained by hand.
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
