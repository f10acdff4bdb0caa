//! Pages of dated documents of one or several collections, in the order of the date, and then of the `_id`.

use mongodb::Collection;
use mongodb::bson::{Bson, DateTime, Document, RawDocumentBuf, Timestamp, doc};

use super::order::Order;
use crate::conn::Conn;
use crate::error::Result;
use crate::limit::cut;
use crate::list::{Asked, Page, PageStart};
use crate::migration::and;
use crate::value::order;
use crate::value::stored::id_of;

/// A position among dated documents. Without an `_id`, it is before or after all documents.
#[derive(Clone, PartialEq)]
pub struct DatePosition {
    date: DateTime,
    id: Option<Bson>,
}

crate::redacted_debug!(DatePosition);

impl DatePosition {
    /// Returns the positions before the oldest document, and after the newest one.
    fn edges() -> [Self; 2] {
        [DateTime::MIN, DateTime::MAX].map(|date| Self { date, id: None })
    }

    /// Reads the values of a token.
    #[must_use]
    pub fn from_values(values: &[Bson]) -> Option<Self> {
        match values {
            // What no document has as its `_id`.
            [_, Bson::Array(_) | Bson::RegularExpression(_) | Bson::Undefined] => None,
            [Bson::DateTime(date), id] => Some(Self {
                date: *date,
                id: Some(id.clone()),
            }),
            [Bson::DateTime(date)] => Self::edges().into_iter().find(|edge| edge.date == *date),
            _ => None,
        }
    }

    /// Returns the values of a token.
    #[must_use]
    pub fn to_values(&self) -> Vec<Bson> {
        [Some(Bson::DateTime(self.date)), self.id.clone()]
            .into_iter()
            .flatten()
            .collect()
    }
}

/// A token of a position among dated documents. [`date_token!`](crate::date_token) defines it.
pub trait DateToken: Clone {
    /// Creates it.
    fn at(position: DatePosition) -> Self;
    /// Returns the position.
    fn position(&self) -> &DatePosition;
}

/// A document, with its position.
#[derive(Clone)]
pub struct DatedDocument {
    /// The date.
    pub date: DateTime,
    /// The `_id`.
    pub id: Bson,
    /// The document.
    pub document: RawDocumentBuf,
    /// The number of its collection, from 0.
    pub collection: usize,
}

crate::redacted_debug!(DatedDocument);

impl<T: DateToken> Asked<T> {
    /// Reads a page of the documents that match a filter, in the order of a date.
    ///
    /// `dated` has the collections and the field, with which an index begins that the caller has checked. If several
    /// collections have a document at one position, the first collection's is on the page.
    pub async fn by_date<I>(
        self,
        dated: (&[&Collection<RawDocumentBuf>], &str),
        filter: &Document,
        decode: impl Fn(&DatedDocument) -> Result<I>,
        conn: &mut Conn<'_>,
    ) -> Result<Page<I, T>> {
        let mut rows = Vec::new();
        for (number, collection) in dated.0.iter().enumerate() {
            for row in self.rows(collection, dated.1, filter.clone(), conn).await? {
                rows.push(DatedDocument {
                    collection: number,
                    ..row
                });
            }
        }
        let compare = |a: &DatedDocument, b: &DatedDocument| {
            let by_date = a.date.cmp(&b.date);
            by_date.then_with(|| order::compare(&a.id, &b.id))
        };
        if dated.0.len() > 1 {
            // Stable: of two at one position, that of the first collection is first.
            match self.descends() {
                true => rows.sort_by(|a, b| compare(b, a)),
                false => rows.sort_by(compare),
            }
            // Moved between the two reads.
            rows.dedup_by(|b, a| compare(a, b).is_eq());
        }
        let has_more = cut(&mut rows, self.limit).is_some();
        if self.start.is_backward() {
            rows.reverse();
        }
        let token = |row: &DatedDocument| {
            T::at(DatePosition {
                date: row.date,
                id: Some(row.id.clone()),
            })
        };
        let ends = rows
            .first()
            .zip(rows.last())
            .map(|(first, last)| [token(first), token(last)]);
        let items = rows.iter().map(decode).collect::<Result<_>>()?;
        let [oldest, newest] = DatePosition::edges().map(T::at);
        let edges = self.edges(oldest, newest);
        Ok(Page::around(items, &self.start, ends, has_more, edges))
    }

    /// Reads the documents of the page in a collection, and one more if there is one, in the direction of the read.
    async fn rows(
        &self,
        from: &Collection<RawDocumentBuf>,
        date: &str,
        filter: Document,
        conn: &mut Conn<'_>,
    ) -> Result<Vec<DatedDocument>> {
        let direction = if self.descends() { -1 } else { 1 };
        let order = Order::new(&Document::new(), &doc! { date: direction, "_id": direction })?;
        let position = match self.start.position().map(T::position) {
            // Beyond an edge there is nothing, or everything.
            Some(DatePosition { date, id: None }) if (*date == DateTime::MIN) == self.descends() => {
                return Ok(Vec::new());
            }
            position => position.and_then(|position| Some([Bson::DateTime(position.date), position.id.clone()?])),
        };
        let start = position
            .as_ref()
            .map_or(PageStart::First, |position| PageStart::After(&position[..]));
        let Some(mut range) = order.range(&start) else {
            return Ok(Vec::new());
        };
        // Only dates.
        if position.is_none() || self.descends() {
            range.min = Some(doc! { date: DateTime::MIN, "_id": Bson::MinKey });
        }
        let after_dates = Bson::Timestamp(Timestamp { time: 0, increment: 0 });
        range
            .max
            .get_or_insert_with(|| doc! { date: after_dates, "_id": Bson::MinKey });
        let filter = and(doc! { date: { "$not": { "$type": "array" } } }, filter);
        let limit = self.limit.saturating_add(1);
        let found = range.find(from, filter, &order.index_name(), limit, conn).await?;
        let dated = found.into_iter().filter_map(|document| {
            Some(DatedDocument {
                date: document.get_datetime(date).ok()?,
                id: id_of(&document),
                document,
                collection: 0,
            })
        });
        Ok(dated.collect())
    }
}

/// Defines the token of a position among dated documents, with the text of its error.
#[doc(hidden)]
#[macro_export]
macro_rules! date_token {
    ($(#[$attribute:meta])* $token:ident, $invalid:literal) => {
        $(#[$attribute])*
        #[derive(Clone, PartialEq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $token($crate::pages::DatePosition);

        impl $crate::list::OfOrdered for $token {}

        impl $crate::pages::DateToken for $token {
            fn at(position: $crate::pages::DatePosition) -> Self {
                Self(position)
            }

            fn position(&self) -> &$crate::pages::DatePosition {
                &self.0
            }
        }

        impl $token {
            fn from_values(values: Vec<::mongodb::bson::Bson>) -> Option<Self> {
                $crate::pages::DatePosition::from_values(&values).map(Self)
            }

            fn to_values(&self) -> Vec<::mongodb::bson::Bson> {
                self.0.to_values()
            }
        }

        $crate::token_of_values!($token, $invalid);
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_position_survives_its_values() {
        let [oldest, newest] = DatePosition::edges();
        let ids = [7.into(), "a".into(), Bson::Null, Bson::MinKey, Bson::MaxKey];
        let positions = ids.map(|id| DatePosition {
            date: DateTime::from_millis(-5),
            id: Some(id),
        });
        for position in positions.into_iter().chain([oldest, newest]) {
            assert!(DatePosition::from_values(&position.to_values()) == Some(position));
        }
    }

    #[test]
    fn other_values_are_no_position() {
        let date = Bson::DateTime(DateTime::from_millis(1));
        for values in [
            vec![],
            vec![date.clone()],
            vec![1.into()],
            vec![date.clone(), 1.into(), Bson::Null],
            vec![1.into(), Bson::Null],
            vec![date, Bson::Array(vec![])],
        ] {
            assert!(DatePosition::from_values(&values).is_none());
        }
    }
}
