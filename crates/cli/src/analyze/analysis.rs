//! The distribution of the lengths of lists.

use crate::output::grouped;

/// The percentiles of [`Analysis::percentiles`], in percent.
pub(crate) const PERCENTILES: [f64; 6] = [50.0, 75.0, 90.0, 95.0, 99.0, 99.9];

/// A suggested threshold makes at most one of this many documents an outlier.
const TYPICAL: u64 = 10;

/// The distribution of the lengths of lists: groups of documents, or arrays with the elements of their overflow documents.
/// With a sample, all figures are those of the sample.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Analysis {
    /// The number of lists. A missing array is an empty list.
    pub(crate) documents: u64,
    /// The number of main documents whose array field is not an array. They count nowhere else.
    pub(crate) not_arrays: u64,
    /// The number of elements.
    pub(crate) elements: u64,
    /// The bytes of the documents, as BSON.
    pub(crate) bytes: u64,
    /// The bytes of the elements, as BSON in their arrays.
    pub(crate) element_bytes: u64,
    /// The numbers of documents by the length of their list, the shortest first.
    pub(crate) lengths: Vec<ListLength>,
}

/// Lists of one length.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ListLength {
    /// The number of elements in each.
    pub(crate) length: u64,
    /// The number of documents with such a list.
    pub(crate) documents: u64,
}

/// Lists of a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LengthRange {
    /// The shortest length.
    pub(crate) from: u64,
    /// The longest length.
    pub(crate) to: u64,
    /// The number of documents with such a list.
    pub(crate) documents: u64,
    /// The number of their elements.
    pub(crate) elements: u64,
}

/// The effect of a threshold on a collection.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ThresholdEstimate {
    /// The most elements of a main document.
    pub(crate) threshold: u32,
    /// The number of documents that would be outliers.
    pub(crate) documents: u64,
    /// The number of elements that would be in overflow documents.
    pub(crate) overflow: u64,
    /// The share of the documents that would be outliers, from 0 to 1.
    pub(crate) documents_share: f64,
    /// The share of the elements that would be in overflow documents, from 0 to 1.
    pub(crate) overflow_share: f64,
}

impl ListLength {
    pub(crate) fn new(length: u64, documents: u64) -> Self {
        Self { length, documents }
    }
}

impl Analysis {
    /// Returns the smallest length that this percentage of the documents does not exceed. It is the length of one of
    /// them. Takes from 0 to 100, to the thousandth. `None` when there are no documents.
    pub(crate) fn percentile(&self, percent: f64) -> Option<u64> {
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

    /// Returns the usual [percentiles](PERCENTILES), each with its length.
    pub(crate) fn percentiles(&self) -> Vec<(f64, u64)> {
        let lengths = PERCENTILES.map(|percent| Some((percent, self.percentile(percent)?)));
        lengths.into_iter().flatten().collect()
    }

    /// Returns the usual percentiles as a text.
    pub(crate) fn percentiles_text(&self) -> String {
        let percentiles = self.percentiles().into_iter();
        let percentiles = percentiles.map(|(percent, length)| format!("{percent}% {}", grouped(length)));
        percentiles.collect::<Vec<_>>().join(", ")
    }

    /// Returns the lists by ranges of their lengths: 0, 1-9, 10-49, 50-99, 100-499 and so on, up to the longest.
    pub(crate) fn ranges(&self) -> Vec<LengthRange> {
        let mut ranges = Vec::new();
        let (mut from, mut rest) = (0, self.lengths.as_slice());
        let mut next = steps(&[1, 5]);
        while !rest.is_empty() {
            let mut after = next.next();
            if after == Some(5) {
                after = next.next(); // one range from 1 to 9
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

    /// Returns the effect of a threshold on the collection.
    pub(crate) fn outliers_at(&self, threshold: u32) -> ThresholdEstimate {
        let inline = u64::from(threshold);
        let outliers = &self.lengths[self.lengths.partition_point(|lists| lists.length <= inline)..];
        let documents = outliers.iter().map(|lists| lists.documents).sum();
        let overflow = outliers
            .iter()
            .map(|lists| lists.documents * (lists.length - inline))
            .sum();
        ThresholdEstimate {
            threshold,
            documents,
            overflow,
            documents_share: ratio(documents, self.documents),
            overflow_share: ratio(overflow, self.elements),
        }
    }

    /// Returns thresholds that would make some documents outliers, and at most a tenth of them: 1, 2, 5, 10, 20, 50 and
    /// so on, the smallest first. Empty when the collection has no outliers: then it does not need the pattern.
    ///
    /// Choose by the number of elements that the application shows at once.
    pub(crate) fn suggestions(&self) -> Vec<ThresholdEstimate> {
        let thresholds = steps(&[1, 2, 5]).map_while(|step| u32::try_from(step).ok());
        thresholds
            .map(|threshold| self.outliers_at(threshold))
            .skip_while(|outliers| outliers.documents.saturating_mul(TYPICAL) > self.documents)
            .take_while(|outliers| outliers.documents > 0)
            .collect()
    }

    /// Returns the mean bytes of an element in its array, with its type and its index; 0 when there are none.
    pub(crate) fn bytes_per_element(&self) -> f64 {
        ratio(self.element_bytes, self.elements)
    }
}

/// Returns these numbers, then ten times, a hundred times and so on, as long as they fit.
fn steps(first: &[u64]) -> impl Iterator<Item = u64> {
    let powers = std::iter::successors(Some(1_u64), |power| power.checked_mul(10));
    powers.flat_map(move |power| first.iter().filter_map(move |step| power.checked_mul(*step)))
}

#[allow(clippy::cast_precision_loss)] // estimates
pub(super) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an analysis of lengths with their numbers of documents.
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
    fn ranges_end_at_the_longest_list() {
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
    fn elements_beyond_a_threshold_overflow() {
        let analysis = of(&[(10, 90), (50, 5), (51, 4), (1000, 1)]);
        let at = analysis.outliers_at(50);
        assert_eq!((at.threshold, at.documents, at.overflow), (50, 5, 954));
        assert!((at.documents_share - 0.05).abs() < 1e-12);
        assert!((at.overflow_share - 954.0 / 2354.0).abs() < 1e-12);
        assert_eq!(analysis.outliers_at(1000).documents, 0);
        assert_eq!(analysis.outliers_at(0).overflow, analysis.elements);
    }

    #[test]
    fn suggested_thresholds_make_few_outliers() {
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
    fn an_empty_analysis_has_no_figures() {
        let analysis = Analysis::default();
        assert_eq!(analysis.percentile(50.0), None);
        assert!(analysis.percentiles().is_empty() && analysis.ranges().is_empty() && analysis.suggestions().is_empty());
        assert_eq!(analysis.outliers_at(50).documents, 0);
        assert!(analysis.bytes_per_element().abs() < f64::EPSILON);
    }
}
