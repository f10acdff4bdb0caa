//! The order of the documents of a query: its index, and the positions there.
//!
//! # Design
//!
//! ## Why does a page begin at a bound of an index, and not at a comparison in its filter?
//!
//! `$gt` compares values of one type only, and has no null. So a page after the last number would miss the strings. The
//! index has values of all types in one order.
//!
//! ## Why does `_id` always ascend in the index?
//!
//! A query and its reverse then have one index. And only an ascending `_id` is the lower bound of a scan, which is inclusive, and
//! for which most types have an [adjacent](crate::value::bound) value above.

use mongodb::bson::{Bson, Document, RawBsonRef, RawDocument};

use super::range::Range;
use crate::error::{Error, Result};
use crate::field::FieldName;
use crate::list::PageStart;
use crate::settings::configuration;
use crate::value::bound::{above, adjacent};
use crate::value::stored::id_of;

const ARRAY_ADVICE: &str = "a document has an array in a field of the sort or of an equality, in which it has several positions, no page was returned: sort by other fields, or correct the document, drop the index, and call ensure_index()";

/// The index of a query. Its directions are the index's.
pub(super) struct Order {
    /// The fields that the filter compares for equality, with their values. They come first in the index.
    equal: Document,
    /// The fields of the sort, `_id` the last.
    sort: Vec<(String, i32)>,
    /// Whether the sort of the query is the reverse of the index.
    is_reversed: bool,
}

impl Order {
    /// Finds the order of a query.
    ///
    /// # Errors
    /// [`Configuration`](crate::ErrorKind::Configuration) for a sort that no index can have.
    pub(super) fn new(filter: &Document, sort: &Document) -> Result<Self> {
        let equal = filter.iter();
        let equal = equal.filter_map(|(field, condition)| Some((field.clone(), equality(field, condition)?.clone())));
        let equal: Document = equal.collect();
        let mut fields: Vec<(String, i32)> = Vec::new();
        for (field, direction) in sort {
            check_path(field)?;
            let direction = match direction {
                Bson::Int32(1) | Bson::Int64(1) => 1,
                Bson::Int32(-1) | Bson::Int64(-1) => -1,
                Bson::Double(direction) if direction.abs() == 1.0 => direction.signum() as i32,
                _ => return Err(configuration("the direction of a field of the sort must be 1 or -1")),
            };
            if fields.last().is_some_and(|(last, _)| last == "_id") {
                return Err(configuration(
                    "the sort has fields after `_id`, which is unique: leave them out",
                ));
            }
            if !equal.contains_key(field) {
                fields.push((field.clone(), direction));
            }
        }
        let last = fields.last().map_or(1, |(_, direction)| *direction);
        if fields.last().is_none_or(|(field, _)| field != "_id") {
            fields.push(("_id".to_owned(), last));
        }
        fields.iter_mut().for_each(|(_, direction)| *direction *= last);
        Ok(Self {
            equal,
            sort: fields,
            is_reversed: last < 0,
        })
    }

    /// Returns the keys of the index.
    pub(super) fn index(&self) -> Document {
        self.directed(1)
    }

    /// Returns the name of the index, which is the server's for these keys.
    pub(super) fn index_name(&self) -> String {
        let keys = self.index();
        match keys.len() {
            1 => "_id_".to_owned(),
            _ => keys
                .iter()
                .map(|(field, direction)| format!("{field}_{direction}"))
                .collect::<Vec<_>>()
                .join("_"),
        }
    }

    /// Returns the sort of the query.
    pub(super) fn sort(&self) -> Document {
        self.directed(if self.is_reversed { -1 } else { 1 })
    }

    fn directed(&self, direction: i32) -> Document {
        let equal = self.equal.keys().map(|field| (field.clone(), direction.into()));
        let sort = self
            .sort
            .iter()
            .map(|(field, of_index)| (field.clone(), (of_index * direction).into()));
        equal.chain(sort).collect()
    }

    /// Returns the range of the documents of a page. `None` if there is nothing beyond its position.
    pub(super) fn range(&self, start: &PageStart<&[Bson]>) -> Option<Range> {
        let ascends = matches!(start, PageStart::Before(_)) == self.is_reversed;
        let mut range = self.all(ascends);
        match start.position() {
            Some(edge) if edge.len() > self.sort.len() => {
                let is_before_all = edge.first() == Some(&Bson::MinKey);
                return (is_before_all == ascends).then_some(range);
            }
            Some(position) if ascends => {
                let mut min = position.to_vec();
                // The first key of a scan is inclusive, and the last one is not.
                if let Some(id) = min.last_mut() {
                    match adjacent(id, true) {
                        Some(next) => *id = next,
                        None => range.except = Some(id.clone()),
                    }
                }
                range.min = Some(self.key(min));
            }
            Some(position) => {
                range.min = Some(self.key(self.edge(true)));
                range.max = Some(self.key(position.to_vec()));
            }
            None => {}
        }
        // The server refuses bounds with nothing in between.
        let is_empty = range.max.is_some() && range.max == range.min;
        (!is_empty).then_some(range)
    }

    /// Returns the range of all documents of the equality, without bounds if there is none.
    fn all(&self, ascends: bool) -> Range {
        let max = self.end();
        Range {
            sort: self.directed(if ascends { 1 } else { -1 }),
            min: max.is_some().then(|| self.key(self.edge(true))),
            max,
            except: None,
        }
    }

    /// Returns all documents within bounds, to explain how the server reads them.
    pub(super) fn bounded(&self) -> Range {
        let mut range = self.all(true);
        range.min = Some(self.key(self.edge(true)));
        range
    }

    /// Returns the positions before and after all documents. They have one value more than a document's position, whose
    /// values can be the first or last of all types.
    pub(super) fn edges(&self) -> [Vec<Bson>; 2] {
        let edges = match self.is_reversed {
            false => [Bson::MinKey, Bson::MaxKey],
            true => [Bson::MaxKey, Bson::MinKey],
        };
        edges.map(|edge| vec![edge; self.sort.len() + 1])
    }

    /// Returns the values of the first or last possible key.
    pub(super) fn edge(&self, is_first: bool) -> Vec<Bson> {
        let edge = |(_, direction): &(String, i32)| match (*direction > 0) == is_first {
            true => Bson::MinKey,
            false => Bson::MaxKey,
        };
        self.sort.iter().map(edge).collect()
    }

    /// Returns a key after all documents of the equality, also if their `_id` is the last of all values.
    fn end(&self) -> Option<Document> {
        let mut end = self.key(self.edge(true));
        let last = self.equal.iter().last();
        let (field, above) = last.and_then(|(field, value)| Some((field.clone(), above(value)?)))?;
        end.insert(field, above);
        Some(end)
    }

    fn key(&self, values: Vec<Bson>) -> Document {
        let sort = self.sort.iter().map(|(field, _)| field.clone()).zip(values);
        self.equal.clone().into_iter().chain(sort).collect()
    }

    /// Returns whether values can be a position.
    pub(super) fn has(&self, values: &[Bson]) -> bool {
        let is_edge = || self.edges().iter().any(|edge| edge == values);
        let is_position = values.len() == self.sort.len()
            && !values.iter().any(|value| matches!(value, Bson::Array(_)))
            && !matches!(values.last(), Some(Bson::Undefined | Bson::RegularExpression(_)));
        is_position || is_edge()
    }

    /// Returns the position of a document.
    ///
    /// # Errors
    /// [`Corrupt`](crate::ErrorKind::Corrupt) when it has several.
    pub(super) fn position(&self, document: &RawDocument) -> Result<Vec<Bson>> {
        let in_order = self.equal.keys().chain(self.sort.iter().map(|(field, _)| field));
        let values = in_order.map(|field| match value(document, field) {
            Some(RawBsonRef::Array(_)) => Err(Error::corrupt(id_of(document), field, ARRAY_ADVICE)),
            // The index has a missing field as null.
            value => Ok(value.and_then(|value| value.try_into().ok()).unwrap_or(Bson::Null)),
        });
        Ok(values.collect::<Result<Vec<_>>>()?.split_off(self.equal.len()))
    }
}

/// Returns the value with which a condition of a filter compares its field for equality, if the index can begin with it.
fn equality<'f>(field: &str, condition: &'f Bson) -> Option<&'f Bson> {
    let value = match condition {
        Bson::Document(operators) if operators.keys().next().is_some_and(|name| name.starts_with('$')) => {
            operators.get("$eq").filter(|_| operators.len() == 1)?
        }
        value => value,
    };
    // An array is equal to an element too, and a regular expression matches.
    let is_one = !matches!(value, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined);
    (is_one && field != "_id" && check_path(field).is_ok()).then_some(value)
}

/// Checks the name of a field, or a path of names.
fn check_path(path: &str) -> Result<()> {
    for (depth, name) in path.split('.').enumerate() {
        match depth {
            0 => FieldName::of_element(name)?,
            _ => FieldName::in_array(name)?,
        };
    }
    Ok(())
}

/// Returns the value at a path, or the first array on the way there.
fn value<'d>(document: &'d RawDocument, path: &str) -> Option<RawBsonRef<'d>> {
    let (name, rest) = path
        .split_once('.')
        .map_or((path, None), |(name, rest)| (name, Some(rest)));
    match (document.get(name).ok()??, rest) {
        (RawBsonRef::Document(inner), Some(rest)) => value(inner, rest),
        (found @ RawBsonRef::Array(_), _) | (found, None) => Some(found),
        (_, Some(_)) => None,
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Regex, cstr, doc, rawdoc};

    use super::*;
    use crate::error::ErrorKind;

    fn order(filter: &Document, sort: &Document) -> Order {
        Order::new(filter, sort).unwrap()
    }

    #[test]
    fn the_index_has_the_equality_and_the_sort_and_then_the_id() {
        for (filter, sort, index, is_reversed) in [
            (doc! {}, doc! {}, doc! { "_id": 1 }, false),
            (doc! {}, doc! { "_id": -1 }, doc! { "_id": 1 }, true),
            (
                doc! { "t": 7 },
                doc! { "r": -1, "s": 1 },
                doc! { "t": 1, "r": -1, "s": 1, "_id": 1 },
                false,
            ),
            (
                doc! { "t": 7 },
                doc! { "r": 1, "s": -1 },
                doc! { "t": 1, "r": -1, "s": 1, "_id": 1 },
                true,
            ),
            (
                doc! { "t": 7 },
                doc! { "r": 1_i64, "_id": -1 },
                doc! { "t": 1, "r": -1, "_id": 1 },
                true,
            ),
            // A field that has one value needs no sort.
            (doc! { "t": 7 }, doc! { "t": -1 }, doc! { "t": 1, "_id": 1 }, false),
        ] {
            let order = order(&filter, &sort);
            assert_eq!((order.index(), order.is_reversed), (index, is_reversed));
        }
        assert_eq!(order(&doc! {}, &doc! {}).index_name(), "_id_");
        let order = order(&doc! { "t": 7 }, &doc! { "a.b": -1, "s": 1 });
        assert_eq!(order.index_name(), "t_1_a.b_-1_s_1__id_1");
    }

    #[test]
    fn only_one_value_is_an_equality() {
        let regex = Regex {
            pattern: cstr!("a").into(),
            options: cstr!("").into(),
        };
        let filter = doc! {
            "a": 1, "b": { "$eq": "x" }, "c": Bson::Null, "d": { "e": 1 }, "f.g": true, "h": {}, "i": { "$eq": { "$gt": 1 } },
            "j": { "$gt": 1 }, "k": { "$eq": 1, "$gt": 0 }, "l": [1], "m": { "$eq": [1] }, "n": regex.clone(), "o": { "$eq": regex },
            "p.0": 1, "_id": 1, "$or": [{ "q": 1 }], "$comment": "x", "r": { "$in": [1] }, "s": Bson::Undefined,
        };
        let equal =
            doc! { "a": 1, "b": "x", "c": Bson::Null, "d": { "e": 1 }, "f.g": true, "h": {}, "i": { "$gt": 1 } };
        assert_eq!(order(&filter, &doc! {}).equal, equal);
    }

    #[test]
    fn a_page_has_a_range_with_the_values_of_the_equality() {
        let (up, down) = (doc! { "t": 1, "r": -1, "_id": 1 }, doc! { "t": -1, "r": 1, "_id": -1 });
        let key = |r: Bson, id: Bson| doc! { "t": 7, "r": r, "_id": id };
        let first = key(Bson::MaxKey, Bson::MinKey);
        let mut end = first.clone();
        end.insert("t", adjacent(&7.into(), true).unwrap());
        let end = Some(end);
        let at = [Bson::Null, "a".into()];
        for is_reversed in [false, true] {
            let sort = if is_reversed {
                doc! { "r": 1, "_id": -1 }
            } else {
                doc! { "r": -1, "_id": 1 }
            };
            let order = order(&doc! { "t": 7 }, &sort);
            let (next, previous) = match is_reversed {
                false => (PageStart::After(&at[..]), PageStart::Before(&at[..])),
                true => (PageStart::Before(&at[..]), PageStart::After(&at[..])),
            };
            let range = order.range(&next).unwrap();
            assert_eq!(
                (range.sort, range.min, range.max),
                (up.clone(), Some(key(Bson::Null, "a\0".into())), end.clone())
            );
            let range = order.range(&previous).unwrap();
            assert_eq!(
                (range.sort, range.min, range.max),
                (down.clone(), Some(first.clone()), Some(key(Bson::Null, "a".into())))
            );
            let all = |start| {
                let range = order.range(&start).unwrap();
                assert_eq!(
                    (range.min, range.max, range.except),
                    (Some(first.clone()), end.clone(), None)
                );
                range.sort
            };
            assert_eq!(all(PageStart::First), order.sort());
            // Beyond the edges there is nothing.
            let [before_all, after_all] = order.edges();
            all(PageStart::After(&before_all[..]));
            all(PageStart::Before(&after_all[..]));
            assert!(order.has(&before_all) && order.has(&after_all));
            for beyond in [PageStart::Before(&before_all[..]), PageStart::After(&after_all[..])] {
                assert!(order.range(&beyond).is_none());
            }
        }
        let order = order(&doc! {}, &doc! {});
        let range = order.range(&PageStart::After(&[0.5.into()])).unwrap();
        assert!(range.is_open());
        assert_eq!((range.min, range.except), (Some(doc! { "_id": 0.5 }), Some(0.5.into())));
        let all = order.range(&PageStart::First).unwrap();
        assert_eq!((all.min, all.max), (None, None));
        assert_eq!(order.bounded().min, Some(doc! { "_id": Bson::MinKey }));
        let before = order.range(&PageStart::Before(&[0.5.into()])).unwrap();
        assert_eq!(before.max, Some(doc! { "_id": 0.5 }));
    }

    #[test]
    fn a_document_has_one_position_unless_it_has_an_array() {
        let order = order(&doc! { "t": 7 }, &doc! { "a.b": 1, "c": 1 });
        for (document, a, c) in [
            (rawdoc! { "_id": 1 }, Bson::Null, Bson::Null),
            (
                rawdoc! { "_id": 1, "a": { "b": 5, "c": [1] }, "c": "x", "d": [1] },
                5.into(),
                "x".into(),
            ),
            (
                rawdoc! { "_id": 1, "a": 5, "c": { "d": [1] } },
                Bson::Null,
                doc! { "d": [1] }.into(),
            ),
        ] {
            assert_eq!(order.position(&document).unwrap(), [a, c, 1.into()]);
        }
        for (document, field) in [
            (rawdoc! { "_id": 1, "t": [7] }, "t"),
            (rawdoc! { "_id": 1, "a": [{ "b": 1 }] }, "a.b"),
            (rawdoc! { "_id": 1, "a": { "b": [] } }, "a.b"),
            (rawdoc! { "_id": 1, "c": [1] }, "c"),
        ] {
            let error = order.position(&document).unwrap_err();
            assert_eq!((error.kind(), error.field()), (ErrorKind::Corrupt, Some(field)));
            assert_eq!(error.document_id(), Some(&1.into()));
        }
    }

    #[test]
    fn a_sort_that_is_none_of_an_index_is_refused() {
        for sort in [
            doc! { "": 1 },
            doc! { "a..b": 1 },
            doc! { "a.0": 1 },
            doc! { "$a": 1 },
            doc! { "a.$b": 1 },
            doc! { "a": 0 },
            doc! { "a": "text" },
            doc! { "a": { "$meta": "textScore" } },
            doc! { "_id": 1, "a": 1 },
        ] {
            let error = Order::new(&doc! {}, &sort).err().unwrap();
            assert_eq!(error.kind(), ErrorKind::Configuration, "{sort}");
        }
    }
}
