use std::borrow::Borrow;

use mongo_patterns_core::verify::{Verify, each, scan};
use mongo_patterns_core::{EncodeKey, EncodedKey, Error, Key, Result};

use crate::repair::finding::Problem;
use crate::repair::scan::Scan;
use crate::repository::{BucketRepository, Shared};

impl<K: Key, T> BucketRepository<K, T> {
    /// Checks the stored buckets, key by key.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let mut findings = trades.verify().stream();
    /// while let Some(finding) = findings.try_next().await? {
    ///     println!("{}: {}", finding.document_id, finding.problem);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`verify`](mongo_patterns_core::verify) says what is true of the verifications of all patterns. This one needs no
    /// index.
    ///
    /// Items are not decoded as the item type. It finds items that are `null`, or have no time or id where the repository
    /// has a field for it, and no other fields of a wrong type.
    ///
    /// # Cost
    /// One aggregation, and one more round trip for each key with findings. The server reads every bucket, and sorts about a
    /// hundred bytes of each. This process holds the summaries of one key's buckets, with the ids of its items if they have
    /// ids.
    pub fn verify(&self) -> Verify<'_, Problem> {
        verify::<K>(self.shared(), Ok(None))
    }

    /// Checks the stored buckets of a key, as [`verify`](Self::verify) checks all keys.
    ///
    /// ```no_run
    /// # use futures::TryStreamExt;
    /// # use mongo_patterns::bucket::{BucketRepository, Finding};
    /// # async fn f(trades: BucketRepository<u32, i32>) -> mongo_patterns::Result<()> {
    /// let findings: Vec<Finding> = trades.verify_key(&123).stream().try_collect().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// It finds documents whose `_id` begins with the key, and whose key field has the key, its text, null, or no value.
    /// [`verify`](Self::verify) finds the others, such as those with an `_id` of another form.
    ///
    /// # Cost
    /// As [`verify`](Self::verify), for the buckets of this key.
    pub fn verify_key<Q: EncodeKey + ?Sized>(&self, key: &Q) -> Verify<'_, Problem>
    where
        K: Borrow<Q>,
    {
        verify::<K>(self.shared(), key.encode_key().map(Some).map_err(Error::from))
    }
}

fn verify<K: Key>(shared: &Shared, key: Result<Option<EncodedKey>>) -> Verify<'_, Problem> {
    let verify = key.map(|key| {
        move |reporter| {
            let keys = Scan::<K>::new(shared, key, reporter);
            each(scan(move |results| keys.run(results)), 1, move |suspect| {
                Box::pin(async move { suspect.confirm::<K>(shared).await })
            })
        }
    });
    Verify::try_new(shared.ensure(), verify)
}
