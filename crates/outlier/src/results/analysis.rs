//! How the lengths of the lists of a collection are spread.

use mongo_patterns_core::key::stored_integer;
use mongodb::bson::{Bson, Document, RawDocument};

use crate::query::analysis as pipeline;
use crate::settings::Settings;

/// The percentiles that are looked at, in percent.
///
/// ```no_run
/// # use mongo_patterns_outlier::{OutlierRepository, PERCENTILES};
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let analysis = books.analyze().await?;
/// for percent in mongo_patterns_outlier::PERCENTILES {
///     println!("{percent} percent have up to {:?}", analysis.percentile(percent));
/// }
/// # Ok(())
/// # }
/// ```
pub const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// One of so many documents is an outlier, at most, where a threshold is suggested.
const TYPICAL: u64 = 10;

/// How the lengths of the lists of a collection are spread; found by
/// [`OutlierRepository::analyze`](crate::OutlierRepository::analyze).
///
/// A list is the array of a main document with its extras. With [`sample`](crate::action::Analyze::sample), all of it is
/// about the documents of the sample.
///
/// ```no_run
/// # use mongo_patterns_outlier::OutlierRepository;
/// # use mongodb::bson::Document;
/// # async fn f(books: OutlierRepository<Document, String>) -> mongo_patterns_core::Result<()> {
/// let analysis = books.analyze().await?;
/// println!("{} books with {} customers", analysis.documents, analysis.elements);
/// if let Some(longest) = &analysis.longest {
///     println!("{} has {} of them", longest.id, longest.length);
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Analysis {
    /// The number of main documents with a list. A missing array is an empty list.
    pub documents: u64,
    /// The number of main documents whose array field is something else. They count nowhere else.
    pub not_arrays: u64,
    /// The number of elements, in main documents and extras.
    pub elements: u64,
    /// The bytes of the main documents, as BSON.
    pub bytes: u64,
    /// The bytes of the elements, as BSON in their arrays, in main documents and extras.
    pub element_bytes: u64,
    /// The document with the longest list, and of several, that with the smallest `_id`. `None` when there are no
    /// elements.
    pub longest: Option<Longest>,
    /// How many documents have lists of each length, the shortest first.
    pub lengths: Vec<ListLength>,
}

/// The document with the longest list.
///
/// ```
/// # use mongo_patterns_outlier::{Analysis, ListLength};
/// let longest = Analysis::default().longest;
/// assert!(longest.is_none(), "there are no elements");
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Longest {
    /// Its `_id`.
    pub id: Bson,
    /// How many elements it has.
    pub length: u64,
}

/// Lists of one length.
///
/// ```
/// # use mongo_patterns_outlier::{Analysis, ListLength};
/// let ten_lists = ListLength::new(3, 10);
/// assert_eq!((ten_lists.length, ten_lists.documents), (3, 10));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ListLength {
    /// How many elements each has.
    pub length: u64,
    /// How many documents have such a list.
    pub documents: u64,
}

/// Lists of a range of lengths.
///
/// ```
/// # use mongo_patterns_outlier::{Analysis, ListLength};
/// # let mut analysis = Analysis::default();
/// # analysis.documents = 100;
/// # analysis.elements = 290;
/// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
/// for range in analysis.ranges() {
///     println!("{} to {}: {} documents", range.from, range.to, range.documents);
/// }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LengthRange {
    /// The shortest length.
    pub from: u64,
    /// The longest length.
    pub to: u64,
    /// How many documents have such a list.
    pub documents: u64,
    /// How many elements they have together.
    pub elements: u64,
}

/// What a threshold would make of a collection.
///
/// ```
/// # use mongo_patterns_outlier::{Analysis, ListLength};
/// # let mut analysis = Analysis::default();
/// # analysis.documents = 100;
/// # analysis.elements = 290;
/// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
/// let at_ten = analysis.outliers_at(10);
/// println!("{} of all documents would be outliers", at_ten.documents_share);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct ThresholdEstimate {
    /// How many elements stay in a main document, at most.
    pub threshold: u32,
    /// How many documents would be outliers.
    pub documents: u64,
    /// How many elements would be in extras.
    pub extras: u64,
    /// The share of the documents that would be outliers, from 0 to 1.
    pub documents_share: f64,
    /// The share of the elements that would be in extras, from 0 to 1.
    pub extras_share: f64,
}

impl ListLength {
    /// So many documents with lists of this length: for an [`Analysis`] of other data.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// let mut analysis = Analysis::default();
    /// analysis.lengths.push(ListLength::new(3, 10));
    /// ```
    pub fn new(length: u64, documents: u64) -> Self {
        Self { length, documents }
    }
}

impl Analysis {
    pub(crate) fn pipeline(settings: &Settings, overflow: &str, sample: Option<u32>) -> Vec<Document> {
        match sample {
            None => pipeline::all(settings, overflow),
            Some(documents) => pipeline::sampled(settings, overflow, documents),
        }
    }

    /// Adds a row of the pipeline. They come in the order of their lengths.
    pub(crate) fn add(&mut self, row: &RawDocument) {
        let stored = |field: &str| row.get(field).ok().flatten().and_then(stored_integer);
        let number = |field: &str| stored(field).and_then(|value| value.try_into().ok()).unwrap_or(0);
        let documents: u64 = number("documents");
        if stored("_id") == Some(pipeline::NO_ARRAY) {
            self.not_arrays += documents;
            return;
        }
        let length = number("_id");
        self.documents += documents;
        self.elements += length * documents;
        self.bytes += number("bytes");
        self.element_bytes += number("element_bytes");
        self.lengths.push(ListLength { length, documents });
        let id = row.get("id").ok().flatten();
        if let Some(id) = id.and_then(|id| Bson::try_from(id).ok()).filter(|_| length > 0) {
            self.longest = Some(Longest { id, length });
        }
    }

    /// The length that so many percent of the documents do not exceed: that of one of them, and the smallest such. It
    /// takes from 0 to 100, to the thousandth. `None` when there are no documents.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// assert_eq!(analysis.percentile(90.0), Some(1));
    /// assert_eq!(analysis.percentile(99.0), Some(20));
    /// ```
    pub fn percentile(&self, percent: f64) -> Option<u64> {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)] // from 0 to 100,000
        let thousandths = (percent.clamp(0.0, 100.0) * 1000.0).round() as u128;
        // In integers: 99.9 percent of 1000 is 999, and not a little more.
        let rank = (u128::from(self.documents) * thousandths).div_ceil(100_000).max(1);
        let mut seen = 0_u128;
        let reached = self.lengths.iter().find(|lists| {
            seen += u128::from(lists.documents);
            seen >= rank
        });
        reached.map(|lists| lists.length)
    }

    /// The [percentiles](PERCENTILES) that are looked at, each with its length.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// for (percent, length) in analysis.percentiles() {
    ///     println!("{percent} percent have up to {length}");
    /// }
    /// ```
    pub fn percentiles(&self) -> Vec<(f64, u64)> {
        let lengths = PERCENTILES.map(|percent| Some((percent, self.percentile(percent)?)));
        lengths.into_iter().flatten().collect()
    }

    /// The lists by ranges of their lengths: 0, 1-9, 10-49, 50-99, 100-499 and so on, up to that of the longest.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// let ranges = analysis.ranges();
    /// assert_eq!((ranges[1].from, ranges[1].to, ranges[1].documents), (1, 9, 90));
    /// ```
    pub fn ranges(&self) -> Vec<LengthRange> {
        let mut ranges = Vec::new();
        let (mut from, mut rest) = (0, self.lengths.as_slice());
        let mut next = steps(&[1, 5]);
        while !rest.is_empty() {
            let mut after = next.next();
            if after == Some(5) {
                after = next.next(); // from 1 to 9 there is one range
            }
            let to = after.map_or(u64::MAX, |after| after - 1);
            let (here, longer) = rest.split_at(rest.partition_point(|lists| lists.length <= to));
            ranges.push(LengthRange {
                from,
                to,
                documents: here.iter().map(|lists| lists.documents).sum(),
                elements: here.iter().map(|lists| lists.documents * lists.length).sum(),
            });
            (from, rest) = (to.saturating_add(1), longer);
        }
        ranges
    }

    /// What a threshold would make of the collection.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// assert_eq!(analysis.outliers_at(5).documents, 10);
    /// ```
    pub fn outliers_at(&self, threshold: u32) -> ThresholdEstimate {
        let inline = u64::from(threshold);
        let outliers = &self.lengths[self.lengths.partition_point(|lists| lists.length <= inline)..];
        let documents = outliers.iter().map(|lists| lists.documents).sum();
        let extras = outliers
            .iter()
            .map(|lists| lists.documents * (lists.length - inline))
            .sum();
        ThresholdEstimate {
            threshold,
            documents,
            extras,
            documents_share: share(documents, self.documents),
            extras_share: share(extras, self.elements),
        }
    }

    /// Thresholds that would make some documents outliers, and at most a tenth of them: 1, 2, 5, 10, 20, 50 and so on,
    /// the smallest first. None when there are no outliers in the collection: the pattern is not for it then.
    ///
    /// Which one to take depends on how many elements the application shows at once.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// let smallest = analysis.suggestions()[0].threshold;
    /// assert_eq!(smallest, 1, "above that are the ten long ones");
    /// ```
    pub fn suggestions(&self) -> Vec<ThresholdEstimate> {
        let thresholds = steps(&[1, 2, 5]).map_while(|step| u32::try_from(step).ok());
        thresholds
            .map(|threshold| self.outliers_at(threshold))
            .skip_while(|outliers| outliers.documents.saturating_mul(TYPICAL) > self.documents)
            .take_while(|outliers| outliers.documents > 0)
            .collect()
    }

    /// The bytes of an element in its array, on average, with its type and its index; 0 when there are none.
    ///
    /// ```
    /// # use mongo_patterns_outlier::{Analysis, ListLength};
    /// # let mut analysis = Analysis::default();
    /// # analysis.documents = 100;
    /// # analysis.elements = 290;
    /// # analysis.lengths = vec![ListLength::new(1, 90), ListLength::new(20, 10)];
    /// analysis.element_bytes = 2900;
    /// assert_eq!(analysis.bytes_per_element(), 10.0);
    /// ```
    pub fn bytes_per_element(&self) -> f64 {
        share(self.element_bytes, self.elements)
    }
}

/// These numbers, then ten times, a hundred times and so on, as long as they can be written.
fn steps(first: &[u64]) -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    powers.flat_map(move |power| first.iter().filter_map(move |step| power.checked_mul(*step)))
}

#[allow(clippy::cast_precision_loss)] // 16 digits are enough for a share
fn share(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many documents of each length.
    fn of(lengths: &[(u64, u64)]) -> Analysis {
        let lengths = lengths.iter();
        let lengths: Vec<_> = lengths
            .map(|&(length, documents)| ListLength { length, documents })
            .collect();
        Analysis {
            documents: lengths.iter().map(|lists| lists.documents).sum(),
            elements: lengths.iter().map(|lists| lists.documents * lists.length).sum(),
            lengths,
            ..Analysis::default()
        }
    }

    #[test]
    fn a_percentile_is_the_length_of_a_document() {
        let analysis = of(&[(0, 500), (3, 490), (40, 9), (9000, 1)]);
        let expected = [(50.0, 0), (75.0, 3), (90.0, 3), (95.0, 3), (99.0, 3), (99.9, 40)];
        assert_eq!(analysis.percentiles(), expected);
        assert_eq!(analysis.percentile(99.901), Some(9000));
        assert_eq!(analysis.percentile(50.001), Some(3));
        for (percent, length) in [(0.0, 0), (-1.0, 0), (100.0, 9000), (200.0, 9000), (f64::NAN, 0)] {
            assert_eq!(analysis.percentile(percent), Some(length), "{percent}");
        }
    }

    #[test]
    fn ranges_go_up_to_the_longest() {
        let range = |from, to, documents, elements| LengthRange {
            from,
            to,
            documents,
            elements,
        };
        let analysis = of(&[(0, 7), (1, 2), (9, 1), (10, 3), (49, 1), (50, 1), (99, 2), (500, 1)]);
        let expected = [
            range(0, 0, 7, 0),
            range(1, 9, 3, 11),
            range(10, 49, 4, 79),
            range(50, 99, 3, 248),
            range(100, 499, 0, 0),
            range(500, 999, 1, 500),
        ];
        assert_eq!(analysis.ranges(), expected);
        assert_eq!(of(&[(0, 3)]).ranges(), [range(0, 0, 3, 0)]);
        let longest = of(&[(u64::MAX, 0)]).ranges();
        assert_eq!(longest.last().map(|range| range.to), Some(u64::MAX));
    }

    #[test]
    fn a_threshold_leaves_the_rest_to_extras() {
        let analysis = of(&[(10, 90), (50, 5), (51, 4), (1000, 1)]);
        let at = analysis.outliers_at(50);
        assert_eq!((at.threshold, at.documents, at.extras), (50, 5, 954));
        assert!((at.documents_share - 0.05).abs() < 1e-12);
        assert!((at.extras_share - 954.0 / 2354.0).abs() < 1e-12);
        assert_eq!(analysis.outliers_at(1000).documents, 0);
        assert_eq!(analysis.outliers_at(0).extras, analysis.elements);
    }

    #[test]
    fn thresholds_with_few_outliers_are_suggested() {
        let thresholds = |analysis: &Analysis| {
            let suggestions = analysis.suggestions();
            suggestions.iter().map(|at| at.threshold).collect::<Vec<_>>()
        };
        let analysis = of(&[(10, 90), (50, 5), (51, 4), (1000, 1)]);
        assert_eq!(thresholds(&analysis), [10, 20, 50, 100, 200, 500]);
        assert_eq!(thresholds(&of(&[(10, 89), (50, 11)])), [0_u32; 0]);
        assert_eq!(thresholds(&of(&[(3, 100)])), [0_u32; 0]);
        assert_eq!(thresholds(&of(&[(0, 100)])), [0_u32; 0]);
    }

    #[test]
    fn of_nothing_there_is_nothing() {
        let analysis = Analysis::default();
        assert_eq!(analysis.percentile(50.0), None);
        assert!(analysis.percentiles().is_empty() && analysis.ranges().is_empty() && analysis.suggestions().is_empty());
        assert_eq!(analysis.outliers_at(50).documents, 0);
        assert!(analysis.bytes_per_element().abs() < f64::EPSILON);
    }
}
