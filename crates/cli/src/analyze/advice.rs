//! A recommendation from the data, with its reasons and its limits.

use serde_json::{Value, json};

use super::analysis::ratio;
use super::designs::{PAGE, longest};
use super::distribution::Distribution;
use crate::output::grouped;

/// The largest size of a list's document at which one read stays cheap.
const SMALL: f64 = 16.0 * 1024.0;

pub(crate) struct Recommendation {
    pub(crate) pattern: &'static str,
    /// The settings, by their names in a profile.
    pub(crate) settings: Vec<(&'static str, Value)>,
    pub(crate) why: Vec<String>,
}

/// Returns `None` if there are no items.
pub(crate) fn recommend(distribution: &Distribution) -> Option<Recommendation> {
    let analysis = &distribution.analysis;
    let (typical, most) = (analysis.percentile(50.0)?, analysis.percentile(99.0)?);
    let longest = longest(distribution);
    if longest == 0 {
        return None;
    }
    let bytes = |items: u64| distribution.item_bytes * ratio(items, 1);
    let lengths = format!(
        "half of the lists have up to {} items, 99 percent up to {}, and the longest has {}",
        grouped(typical),
        grouped(most),
        grouped(longest)
    );
    if longest <= 100 && bytes(longest) <= SMALL {
        let limit = step_above(2 * longest);
        return Some(Recommendation {
            pattern: "embedded",
            settings: vec![("max_children", json!(limit))],
            why: vec![
                lengths,
                format!(
                    "even the longest is about {} in one document, so one read returns all",
                    size(bytes(longest))
                ),
                format!("the limit of {limit} leaves room, and stops unbounded growth"),
            ],
        });
    }
    let suggestions = analysis.suggestions();
    let few = suggestions
        .iter()
        .find(|at| at.documents_share <= 0.01)
        .or(suggestions.first());
    if let Some(at) = few.filter(|at| bytes(at.threshold.into()) <= SMALL && longest / 4 >= at.threshold.into()) {
        return Some(Recommendation {
            pattern: "outlier",
            settings: vec![("threshold", json!(at.threshold))],
            why: vec![
                lengths,
                format!(
                    "with a threshold of {}, {} of {} lists ({}) are outliers and have {} of all items",
                    at.threshold,
                    grouped(at.documents),
                    grouped(analysis.documents),
                    percent(at.documents_share),
                    percent(at.overflow_share)
                ),
                format!("a typical document stays below {}", size(bytes(at.threshold.into()))),
            ],
        });
    }
    let page = [500, 200, 100, 50, 20]
        .into_iter()
        .find(|page| *page <= typical && bytes(*page) <= SMALL)
        .unwrap_or(10);
    Some(Recommendation {
        pattern: "bucket",
        settings: vec![("page_size", json!(page))],
        why: vec![
            lengths,
            "long lists are typical, so read them page by page".to_owned(),
            format!(
                "a page of {page} is about {}, and most lists fill at least one",
                size(bytes(page))
            ),
        ],
    })
}

/// Recommends a subset size, or another pattern. Returns `None` if there are no items.
pub(crate) fn subset(distribution: &Distribution) -> Option<Recommendation> {
    let general = recommend(distribution)?;
    if general.pattern == "embedded" {
        return Some(general);
    }
    let bytes = |items: u64| distribution.item_bytes * ratio(items, 1);
    let fits = |size: &u64| bytes(*size) <= SMALL;
    let chosen = [PAGE, 5, 3, 1].into_iter().find(fits).unwrap_or(1);
    let lists = distribution.analysis.lengths.iter();
    let longer: u64 = lists
        .filter(|lists| lists.length > chosen)
        .map(|lists| lists.documents)
        .sum();
    let share = percent(ratio(longer, distribution.analysis.documents));
    let first = match chosen {
        PAGE => format!("the parent contains a page of {PAGE}, so no second read is needed"),
        _ => format!(
            "more than {chosen} would exceed {}, so a page of {PAGE} needs a second read",
            size(SMALL)
        ),
    };
    Some(Recommendation {
        pattern: "subset",
        settings: vec![("size", json!(chosen))],
        why: vec![
            first,
            format!(
                "{chosen} children are about {}, and {share} of the parents have more",
                size(bytes(chosen))
            ),
            "choose another size if a page shows more children, or if children are written very often".to_owned(),
        ],
    })
}

/// Properties that the data does not show.
pub(crate) const CAVEAT: &str = "If a page shows only the newest or the best few items of a list of any length, use the subset pattern instead. If items are found and changed individually, by their own fields, store one document each.";

/// Returns the first number of 1, 2, 5, 10, 20, 50 and so on that is not below `number`.
fn step_above(number: u64) -> u64 {
    let mut power = 1;
    loop {
        for step in [1, 2, 5] {
            if power * step >= number {
                return power * step;
            }
        }
        power *= 10;
    }
}

/// Formats a number of bytes.
pub(crate) fn size(bytes: f64) -> String {
    const UNITS: [&str; 5] = ["B", "KB", "MB", "GB", "TB"];
    let (mut bytes, mut unit) = (bytes, 0);
    while bytes >= 999.5 && unit < UNITS.len() - 1 {
        bytes /= 1000.0;
        unit += 1;
    }
    let decimals = usize::from(unit > 0 && bytes < 9.95);
    format!("{bytes:.decimals$} {}", UNITS[unit])
}

pub(super) fn percent(share: f64) -> String {
    let percent = share * 100.0;
    let decimals = if percent > 0.0 && percent < 9.95 { 1 } else { 0 };
    format!("{percent:.decimals$}%")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::analyze::designs::tests::distribution;

    fn pattern(lengths: &[(u64, u64)]) -> (&'static str, Value) {
        let recommended = recommend(&distribution(lengths)).unwrap();
        (recommended.pattern, recommended.settings[0].1.clone())
    }

    #[test]
    fn the_distribution_determines_the_pattern() {
        assert_eq!(pattern(&[(1, 50), (3, 40), (7, 10)]), ("embedded", json!(20)));
        assert_eq!(pattern(&[(3, 980), (40, 15), (5000, 5)]), ("outlier", json!(50)));
        assert_eq!(pattern(&[(5, 99), (900, 1)]), ("outlier", json!(5)));
        assert_eq!(pattern(&[(300, 50), (400, 50)]), ("bucket", json!(100)));
        assert!(recommend(&distribution(&[])).is_none());
    }

    #[test]
    fn a_subset_contains_a_page_unless_children_are_large() {
        let size = |distribution: &Distribution| {
            let recommended = subset(distribution).unwrap();
            (recommended.pattern, recommended.settings[0].1.clone())
        };
        let mut many = distribution(&[(300, 50), (400, 50)]);
        assert_eq!(size(&many), ("subset", json!(10)));
        many.item_bytes = 5000.0;
        assert_eq!(size(&many), ("subset", json!(3)));
        assert_eq!(size(&distribution(&[(1, 50), (7, 10)])), ("embedded", json!(20)));
    }

    #[test]
    fn sizes_are_formatted_with_a_unit() {
        let sizes = [0.0, 999.0, 1000.0, 12_345.0, 1_234_567.0].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 KB", "12 KB", "1.2 MB"]);
        assert_eq!(
            (percent(0.0), percent(0.0051), percent(0.5)),
            ("0%".into(), "0.5%".into(), "50%".into())
        );
    }

    #[test]
    fn limits_are_rounded_up() {
        assert_eq!([0, 1, 3, 14, 50, 51].map(step_above), [1, 1, 5, 20, 50, 100]);
    }
}
