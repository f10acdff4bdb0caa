//! The derive macros of mongo-patterns.
//!
//! Services use them through the crate `mongo-patterns`, with its feature `derive`, where each has an example. The code that
//! they generate names that crate.

mod fields;
mod newtype;

use proc_macro::TokenStream;
use syn::{DeriveInput, parse_macro_input};

/// Generates a constant for each field of a struct, with the name that serde stores, after `rename` and `rename_all`.
///
/// A builder that takes the constant instead of a string follows a renamed field, and a misspelled name does not compile.
///
/// The constants have the visibility of the struct. A field that serde skips has none, and neither has one with `flatten`,
/// whose own type can have constants.
///
/// # Errors
/// It does not compile for
/// - an enum, a tuple struct or a unit struct, which have no fields with names
/// - a field that is stored by one name and read by another
/// - a struct that serde stores as another type, by `into`, `from`, `try_from`, `transparent` or `remote`
/// - what serde's own macros refuse in its attributes.
#[proc_macro_derive(Fields, attributes(serde))]
pub fn fields(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), fields::expand)
}

/// Generates an implementation of `AsKey` for a newtype.
///
/// Implement the trait by hand where not every key is a value of the type, or where two values are the same key.
///
/// # Errors
/// It does not compile for a type that is not a struct of one field, or whose field is not a key.
#[proc_macro_derive(AsKey)]
pub fn as_key(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), newtype::as_key)
}

/// Generates an implementation of `IntoId` for a newtype.
///
/// # Errors
/// It does not compile for a type that is not a struct of one field, or whose field is not an id.
#[proc_macro_derive(IntoId)]
pub fn into_id(input: TokenStream) -> TokenStream {
    expand(&parse_macro_input!(input as DeriveInput), newtype::into_id)
}

fn expand(input: &DeriveInput, expand: fn(&DeriveInput) -> syn::Result<proc_macro2::TokenStream>) -> TokenStream {
    expand(input).unwrap_or_else(|error| error.to_compile_error()).into()
}
