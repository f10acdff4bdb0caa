//! The bytes of items, as client and server count them.

use mongodb::bson::cstr;

use crate::prelude::*;
use crate::settings::Settings;

/// The bytes of a document with one field `i`, beside those of its value.
pub(crate) const AROUND: i32 = 8;

/// Returns the bytes of an item: for a document its size as BSON, for another value those of the value.
pub(crate) fn bytes_of(item: RawBsonRef<'_>) -> usize {
    if let RawBsonRef::Document(item) = item {
        return item.as_bytes().len();
    }
    let mut around = RawDocumentBuf::new();
    around.append(cstr!("i"), item);
    around.as_bytes().len() - AROUND as usize
}

/// Returns the bytes of several items.
pub(crate) fn bytes_of_all<'v>(items: impl Iterator<Item = RawBsonRef<'v>>) -> i64 {
    items
        .map(|item| i64::try_from(bytes_of(item)).unwrap_or(i64::MAX))
        .sum()
}

impl Settings {
    /// Returns how many of these items, from the first, an empty bucket has room for, by their sizes: at least one.
    pub(crate) fn page_length(&self, sizes: impl Iterator<Item = usize>) -> usize {
        let mut bytes = 0;
        let most = self.bytes.as_ref().map(|bound| i64::from(bound.most));
        let page = sizes.take(self.page_size as usize).enumerate();
        let fits = page.take_while(|(position, size)| {
            bytes += i64::try_from(*size).unwrap_or(i64::MAX);
            *position == 0 || most.is_none_or(|most| bytes <= most)
        });
        fits.count()
    }
}

#[cfg(test)]
mod tests {
    use mongodb::bson::bson;

    use super::*;
    use crate::settings::with_bytes;

    #[test]
    fn an_item_has_the_bytes_of_its_value() {
        for (item, bytes) in [
            (bson!(5), 4),
            (bson!("ab"), 7),
            (bson!({}), 5),
            (bson!(null), 0),
            (bson!([1]), 12),
        ] {
            let around = RawDocumentBuf::try_from(&doc! { "i": item.clone() }).unwrap();
            assert_eq!(bytes_of(around.get("i").unwrap().unwrap()), bytes, "{item}");
        }
    }

    #[test]
    fn a_page_has_the_items_that_fit() {
        let settings = with_bytes(100);
        let length = |sizes: &[usize]| settings.page_length(sizes.iter().copied());
        assert_eq!((length(&[]), length(&[500, 1]), length(&[100, 1])), (0, 1, 1));
        assert_eq!((length(&[60, 40, 1]), length(&[60, 41]), length(&[1; 30])), (2, 1, 10));
        assert_eq!(Settings::example().page_length([500; 30].into_iter()), 10);
    }
}
