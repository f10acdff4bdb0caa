//! Which elements are equal as MongoDB compares values, where elements are unique.

use mongodb::bson::RawBsonRef;

/// A form of an element that is the same for elements that are equal: numbers are, whatever their type.
pub(crate) fn form(element: RawBsonRef<'_>) -> Vec<u8> {
    let mut form = Vec::new();
    write(element, &mut form);
    form
}

fn write(value: RawBsonRef<'_>, form: &mut Vec<u8>) {
    // Each part with its length, so that no two values have a form in common.
    let mut part = |kind: u8, bytes: &[u8]| {
        form.push(kind);
        form.extend_from_slice(&bytes.len().to_le_bytes());
        form.extend_from_slice(bytes);
    };
    match value {
        RawBsonRef::Int32(number) => part(1, &i64::from(number).to_le_bytes()),
        RawBsonRef::Int64(number) => part(1, &number.to_le_bytes()),
        RawBsonRef::Double(number) => match exact(number) {
            Some(number) => part(1, &number.to_le_bytes()),
            None => part(2, &number.to_le_bytes()),
        },
        RawBsonRef::String(text) => part(3, text.as_bytes()),
        RawBsonRef::ObjectId(id) => part(4, &id.bytes()),
        RawBsonRef::Document(document) => {
            form.push(5);
            for (name, value) in document.iter().flatten() {
                form.push(1);
                write(RawBsonRef::String(name.as_str()), form);
                write(value, form);
            }
            form.push(0);
        }
        RawBsonRef::Array(array) => {
            form.push(6);
            for value in array.into_iter().flatten() {
                form.push(1);
                write(value, form);
            }
            form.push(0);
        }
        other => part(7, format!("{other:?}").as_bytes()),
    }
}

/// A double that is an integer, as one.
#[allow(clippy::cast_possible_truncation)] // within these bounds, an integer's double is exact
fn exact(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

#[cfg(test)]
mod tests {
    use mongodb::bson::{Bson, RawDocumentBuf, doc};

    use super::*;

    fn of(value: impl Into<Bson>) -> Vec<u8> {
        let document = RawDocumentBuf::try_from(&doc! { "i": value.into() }).unwrap();
        form(document.get("i").unwrap().unwrap())
    }

    #[test]
    fn what_is_equal_on_the_server_has_one_form_and_nothing_else() {
        assert_eq!(of(1), of(1_i64));
        assert_eq!(of(1), of(1.0));
        assert_eq!(of(doc! { "a": 1, "b": [2.0] }), of(doc! { "a": 1.0, "b": [2_i64] }));
        let others: [Bson; 10] = [
            1.into(),
            1.5.into(),
            "1".into(),
            "".into(),
            Bson::Null,
            true.into(),
            doc! { "a": 1, "b": 2 }.into(),
            doc! { "b": 2, "a": 1 }.into(),
            doc! { "a": [1, 2] }.into(),
            doc! { "a": [[1], 2] }.into(),
        ];
        for (index, one) in others.iter().enumerate() {
            for other in &others[..index] {
                assert_ne!(of(one.clone()), of(other.clone()));
            }
        }
    }
}
