//! Which pattern the data asks for, and why. What the application shows decides the rest, and the advice says so.

use serde_json::{Value, json};

use super::designs::{PAGE, longest};
use super::{Spread, ratio};
use crate::output::grouped;

/// What a document of a list should not pass, so that it stays a matter of one read.
const SMALL: f64 = 16.0 * 1024.0;

pub(crate) struct Recommendation {
    pub(crate) pattern: &'static str,
    /// The settings, by the names that they have in a profile.
    pub(crate) settings: Vec<(&'static str, Value)>,
    pub(crate) why: Vec<String>,
}

/// `None` when there is nothing to tell it by.
pub(crate) fn recommend(spread: &Spread) -> Option<Recommendation> {
    let analysis = &spread.analysis;
    let (typical, most) = (analysis.percentile(50.0)?, analysis.percentile(99.0)?);
    let longest = longest(spread);
    if longest == 0 {
        return None;
    }
    let bytes = |items: u64| spread.item_bytes * ratio(items, 1);
    let spread_text = format!(
        "half of the lists have up to {} items, 99 percent up to {}, and the longest has {}",
        grouped(typical),
        grouped(most),
        grouped(longest)
    );
    if longest <= 100 && bytes(longest) <= SMALL {
        let bound = step_above(2 * longest);
        return Some(Recommendation {
            pattern: "embedded",
            settings: vec![("max_children", json!(bound))],
            why: vec![
                spread_text,
                format!(
                    "even the longest is about {} in one document, so one read shows all",
                    size(bytes(longest))
                ),
                format!("the bound of {bound} leaves room, and ends a list that grows without end"),
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
                spread_text,
                format!(
                    "at {} only {} of {} lists ({}) are outliers, and they have {} of all items",
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
            spread_text,
            "long lists are typical, so they are best read page by page".to_owned(),
            format!(
                "a page of {page} is about {}, and most lists fill at least one",
                size(bytes(page))
            ),
        ],
    })
}

/// Which size a subset should have, or that none is needed. `None` when there is nothing to tell it by.
pub(crate) fn subset(spread: &Spread) -> Option<Recommendation> {
    let general = recommend(spread)?;
    if general.pattern == "embedded" {
        return Some(general);
    }
    let bytes = |items: u64| spread.item_bytes * ratio(items, 1);
    let fits = |size: &u64| bytes(*size) <= SMALL;
    let chosen = [PAGE, 5, 3, 1].into_iter().find(fits).unwrap_or(1);
    let lists = spread.analysis.lengths.iter();
    let longer: u64 = lists
        .filter(|lists| lists.length > chosen)
        .map(|lists| lists.documents)
        .sum();
    let share = percent(ratio(longer, spread.analysis.documents));
    let first = match chosen {
        PAGE => format!("a page of {PAGE} is in the parent, which needs no second read"),
        _ => format!(
            "more than {chosen} would pass {}, so a page of {PAGE} takes a second read",
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
            "a page that shows more children, or parents whose children are written all the time, ask for another size"
                .to_owned(),
        ],
    })
}

/// What the data cannot tell.
pub(crate) const CAVEAT: &str = "Where a page shows only the newest or the best few of a list, whatever its length, take the subset pattern instead. Where items are found and changed one by one, by their own fields, keep one document each.";

/// 1, 2, 5, 10, 20, 50 and so on: the first that is not below.
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

/// Bytes for people.
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
    use crate::analyze::designs::tests::spread;

    fn pattern(lengths: &[(u64, u64)]) -> (&'static str, Value) {
        let recommended = recommend(&spread(lengths)).unwrap();
        (recommended.pattern, recommended.settings[0].1.clone())
    }

    #[test]
    fn the_spread_decides() {
        assert_eq!(pattern(&[(1, 50), (3, 40), (7, 10)]), ("embedded", json!(20)));
        assert_eq!(pattern(&[(3, 980), (40, 15), (5000, 5)]), ("outlier", json!(50)));
        assert_eq!(pattern(&[(5, 99), (900, 1)]), ("outlier", json!(5)));
        assert_eq!(pattern(&[(300, 50), (400, 50)]), ("bucket", json!(100)));
        assert!(recommend(&spread(&[])).is_none());
    }

    #[test]
    fn a_subset_has_a_page_unless_children_are_large() {
        let size = |spread: &Spread| {
            let recommended = subset(spread).unwrap();
            (recommended.pattern, recommended.settings[0].1.clone())
        };
        let mut many = spread(&[(300, 50), (400, 50)]);
        assert_eq!(size(&many), ("subset", json!(10)));
        many.item_bytes = 5000.0;
        assert_eq!(size(&many), ("subset", json!(3)));
        assert_eq!(size(&spread(&[(1, 50), (7, 10)])), ("embedded", json!(20)));
    }

    #[test]
    fn sizes_are_short() {
        let sizes = [0.0, 999.0, 1000.0, 12_345.0, 1_234_567.0].map(size);
        assert_eq!(sizes, ["0 B", "999 B", "1.0 KB", "12 KB", "1.2 MB"]);
        assert_eq!(
            (percent(0.0), percent(0.0051), percent(0.5)),
            ("0%".into(), "0.5%".into(), "50%".into())
        );
    }

    #[test]
    fn bounds_are_round() {
        assert_eq!([0, 1, 3, 14, 50, 51].map(step_above), [1, 1, 5, 20, 50, 100]);
    }
}
