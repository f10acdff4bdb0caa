//! Documents of any bytes.

use mongodb::bson::RawDocumentBuf;

/// The bytes of the smallest document: its length, and its NUL.
const SMALLEST: usize = 5;
/// The most documents of one input.
const DOCUMENTS: usize = 16;

/// Splits any bytes into documents. It corrects an invalid length; everything else can be invalid.
pub fn documents(input: &[u8]) -> Vec<RawDocumentBuf> {
    let mut documents = Vec::new();
    let mut rest = input;
    while rest.len() >= SMALLEST && documents.len() < DOCUMENTS {
        let stated = rest.first_chunk().map(|bytes| i32::from_le_bytes(*bytes));
        let stated = stated.and_then(|stated| usize::try_from(stated).ok());
        let length = stated
            .filter(|stated| (SMALLEST..=rest.len()).contains(stated))
            .unwrap_or(rest.len());
        let (document, after) = rest.split_at(length);
        let mut bytes = document.to_vec();
        bytes[..4].copy_from_slice(&i32::try_from(length).unwrap_or(i32::MAX).to_le_bytes());
        bytes[length - 1] = 0;
        documents.extend(RawDocumentBuf::from_bytes(bytes));
        rest = after;
    }
    documents
}
