#[allow(unused_imports)] // the links of the documentation use them
use mongo_patterns_core::ErrorKind::{Configuration, SettingsMismatch};
use mongo_patterns_core::catalog::StoredSettings;
use mongo_patterns_core::conn::Conn;
use mongo_patterns_core::send::{Every, IsRouter};
use mongo_patterns_core::settings::configuration;
use mongo_patterns_core::{Key, Result};

use crate::query::figures::{outdated, recomputed};
use crate::query::totals::with_items;
use crate::repository::{BucketRepository, Shared};
use crate::results::RefreshedFigures;
use crate::settings::FIGURES;

impl<K: Key, T> BucketRepository<K, T> {
    /// Computes the [figures](crate::BucketRepositoryBuilder::sum) of all buckets from their items, and stores their
    /// settings in the [catalog](mongo_patterns_core::catalog).
    ///
    /// So a collection gets figures, or other figures. The server does the work.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// // trades was built with sum("qty"), for a collection without figures
    /// let refreshed = trades.refresh_figures().await?;
    /// println!("{} buckets have new figures", refreshed.documents);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Stop the programs that write without these figures first: their [`ensure_indexes`](crate::Repository::ensure_indexes)
    /// returns [`SettingsMismatch`] from then on. Programs with these figures may write concurrently, and
    /// [`totals`](Self::totals) stay exact. Figures that the new settings lack are removed. Invalid values of items are left
    /// out: [`verify`](Self::verify) finds them.
    ///
    /// # Cost
    /// Three round trips, or four if the settings change. The server reads every bucket, twice on a router, and writes those
    /// that change.
    ///
    /// # Cancel safety
    /// The server may finish the last command. Each bucket has the old or the new figures. Call it again.
    ///
    /// # Errors
    /// - [`Configuration`]: the repository has no figures.
    /// - [`SettingsMismatch`]: other settings contradict the catalog, or a document has another value in the field of the
    ///   figures.
    ///
    /// After an error of the driver, some buckets may have new figures: call it again.
    pub fn refresh_figures(&self) -> RefreshFigures<'_> {
        RefreshFigures { shared: self.shared() }
    }
}

mongo_patterns_core::action! {
    /// Computes the figures of all buckets; returned by [`BucketRepository::refresh_figures`].
    pub struct RefreshFigures<'a> {
        shared: &'a Shared,
    }
    "refresh_figures" => RefreshedFigures
}

impl RefreshFigures<'_> {
    async fn execute(self) -> Result<RefreshedFigures> {
        let (collection, settings) = self.shared.parts();
        let (Some(_), Some(stage)) = (&settings.figures, recomputed(settings)) else {
            return Err(configuration(
                "the repository has no figures: call sum(..), min(..), max(..), count_by(..) or first_and_last() on the builder",
            ));
        };
        let ensure = self.shared.ensure();
        match ensure.entry.check_except(&mut Conn::new(), &[FIGURES]).await? {
            StoredSettings::Same => {}
            StoredSettings::Old => {
                ensure.check_own_fields(&mut Conn::new()).await?;
                ensure.entry.replace(&mut Conn::new()).await?;
            }
            StoredSettings::None => return Err(ensure.entry.missing()),
        }
        let mut every = Every::new(with_items(settings), vec![stage.clone()]);
        every.left = outdated(settings, &stage);
        let updated = Conn::new()
            .update_every(collection, every, &IsRouter::default())
            .await?;
        Ok(RefreshedFigures {
            documents: updated.modified_count,
        })
    }
}
