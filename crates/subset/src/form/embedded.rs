//! The first children of a parent, as they are embedded.

use super::child::is_id;
use crate::prelude::*;

/// The first children of a parent, for each of its subsets.
#[derive(Clone, Debug, Default)]
pub(crate) struct Embedded {
    /// Those of the first subset.
    pub(crate) first: Vec<RawDocumentBuf>,
    /// Those of each further subset.
    further: Vec<Vec<RawDocumentBuf>>,
}

impl Embedded {
    /// Returns no children.
    pub(crate) fn none(settings: &Settings) -> Self {
        Self {
            first: Vec::new(),
            further: vec![Vec::new(); settings.further.len()],
        }
    }

    /// Returns the children of a parent that has only one subset.
    pub(crate) fn only(first: Vec<RawDocumentBuf>) -> Self {
        let further = Vec::new();
        Self { first, further }
    }

    /// Adds the next child of the first subset, or of a further one.
    pub(crate) fn add(&mut self, further: Option<usize>, child: RawDocumentBuf) {
        let subset = match further {
            None => Some(&mut self.first),
            Some(number) => self.further.get_mut(number),
        };
        if let Some(subset) = subset {
            subset.push(child);
        }
    }

    /// Returns the children of each subset, in the order of the settings.
    pub(crate) fn subsets(&self) -> impl Iterator<Item = &[RawDocumentBuf]> {
        std::iter::once(&self.first).chain(&self.further).map(Vec::as_slice)
    }

    /// Returns the number of embedded children, each counted in every subset.
    pub(crate) fn count(&self) -> usize {
        self.subsets().map(<[_]>::len).sum()
    }

    /// Returns whether a subset has this child.
    pub(crate) fn includes(&self, settings: &Settings, child: &Bson) -> bool {
        let field = settings.child_id.as_str();
        let mut embedded = self.subsets().flatten();
        embedded.any(|embedded| is_id(embedded.get(field).ok().flatten(), child))
    }

    /// Returns the fields of the parent with their arrays.
    ///
    /// # Errors
    /// Those of the driver, for a child that is not valid BSON.
    pub(crate) fn fields(&self, settings: &Settings) -> Result<Document> {
        let subsets = settings.subset_fields().zip(self.subsets());
        let fields = subsets.map(|(field, children)| {
            let children = elements(children)?;
            Ok::<_, Error>((field.as_str().to_owned(), Bson::from(children)))
        });
        fields.collect()
    }
}

/// Returns documents as the elements of an array.
fn elements(documents: &[RawDocumentBuf]) -> Result<Vec<Bson>> {
    let elements = documents
        .iter()
        .map(|child| Bson::try_from(RawBsonRef::Document(child)));
    let elements: bson::error::Result<Vec<Bson>> = elements.collect();
    Ok(elements.map_err(CommandError::from)?)
}
