//! Pages of what one id has, in the order of an index of the id and a number: its revisions, or its intervals.

use mongodb::Collection;
use mongodb::bson::{Bson, Document, RawDocument, RawDocumentBuf};
use mongodb::options::{FindOptions, Hint};

use super::page::Page;
use super::start::Asked;
use crate::action::batch_size;
use crate::conn::Conn;
use crate::error::Result;
use crate::field::FieldName;
use crate::limit::cut;

/// A list in the order of an index of two fields: an id and a number.
pub struct ByNumber<'a, T> {
    /// The collection.
    pub collection: &'a Collection<RawDocumentBuf>,
    /// The name of the index.
    pub index: &'a str,
    /// Its fields.
    pub fields: [&'a FieldName; 2],
    /// The positions before the oldest item, and after the newest one.
    pub edges: [T; 2],
}

crate::redacted_debug!(ByNumber<'_, T>);

impl<T: Clone> ByNumber<'_, T> {
    /// Reads a page of what a filter matches.
    pub async fn read<I>(
        self,
        page: Asked<T>,
        filter: Document,
        decode: impl Fn(&RawDocument) -> Result<I>,
        token: impl Fn(&I) -> T,
        conn: &mut Conn<'_>,
    ) -> Result<Page<I, T>> {
        // One more, to know whether there are more.
        let limit = page.limit.saturating_add(1);
        let direction = Bson::Int32(if page.descends() { -1 } else { 1 });
        let order = self.fields.map(|key| (key.to_string(), direction.clone()));
        let options = FindOptions::builder()
            .sort(Document::from_iter(order))
            .limit(i64::from(limit))
            .batch_size(batch_size(limit))
            .hint(Hint::Name(self.index.to_owned()))
            .build();
        let mut rows = conn.find_all(self.collection, filter, options).await?;
        let has_more = cut(&mut rows, page.limit).is_some();
        if page.start.is_backward() {
            rows.reverse();
        }
        let items = rows.iter().map(|row| decode(row)).collect::<Result<Vec<_>>>()?;
        let ends = items
            .first()
            .zip(items.last())
            .map(|(first, last)| [token(first), token(last)]);
        let [oldest, newest] = self.edges;
        let edges = page.edges(oldest, newest);
        Ok(Page::around(items, &page.start, ends, has_more, edges))
    }
}

/// Defines the token of a position among what an id has: a number as text. Its positions begin and end with two numbers.
#[doc(hidden)]
#[macro_export]
macro_rules! number_token {
    ($(#[$attribute:meta])* $token:ident($number:ty), $first:expr, $last:expr) => {
        $(#[$attribute])*
        ///
        /// Its text is safe in a URL. A forged token can only select another position of the id that the service passes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize, ::serde::Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $token($number);

        impl $crate::list::OfOrdered for $token {}

        impl $token {
            /// The positions before the oldest item, and after the newest one.
            pub(crate) const EDGES: [Self; 2] = [Self($first), Self($last)];

            pub(crate) fn after(position: $number) -> Self {
                Self(position)
            }

            pub(crate) fn position(self) -> $number {
                self.0
            }

            fn parse_text(text: &str) -> Option<Self> {
                let position = text.parse().ok().filter(|position: &$number| position.to_string() == text);
                position.map(Self)
            }
        }

        impl ::std::fmt::Display for $token {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                self.0.fmt(f)
            }
        }

        $crate::token_as_text!($token, "the token is not one of this call: pass it on unchanged");
    };
}
