//! Newtypes as keys and ids.

use proc_macro2::TokenStream;
use quote::quote;
use syn::{Data, DeriveInput, Error, Fields, Index, Member, Result, Type};

pub(crate) fn as_key(input: &DeriveInput) -> Result<TokenStream> {
    let (field, stored) = only_field(input)?;
    let name = &input.ident;
    let (of_impl, of_type, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #of_impl ::mongo_patterns::AsKey for #name #of_type #bounds {
            type Key = #stored;

            fn to_key(&self) -> #stored {
                ::core::clone::Clone::clone(&self.#field)
            }

            fn from_key(key: #stored) -> ::core::option::Option<Self> {
                ::core::option::Option::Some(Self { #field: key })
            }
        }
    })
}

pub(crate) fn into_id(input: &DeriveInput) -> Result<TokenStream> {
    let (field, _) = only_field(input)?;
    let name = &input.ident;
    let (of_impl, of_type, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        impl #of_impl ::mongo_patterns::IntoId for #name #of_type #bounds {
            fn into_id(self) -> ::mongo_patterns::Result<::mongo_patterns::mongodb::bson::Bson> {
                ::mongo_patterns::IntoId::into_id(self.#field)
            }
        }
    })
}

/// Returns the name or index, and the type, of the field of a newtype.
fn only_field(input: &DeriveInput) -> Result<(Member, &Type)> {
    let refused = || Error::new_spanned(&input.ident, "only a struct of one field is stored as the value in it");
    let Data::Struct(data) = &input.data else {
        return Err(refused());
    };
    let (Fields::Named(_) | Fields::Unnamed(_)) = &data.fields else {
        return Err(refused());
    };
    let mut fields = data.fields.iter();
    match (fields.next(), fields.next()) {
        (Some(field), None) => {
            let index = || Member::Unnamed(Index::from(0));
            Ok((field.ident.clone().map_or_else(index, Member::Named), &field.ty))
        }
        _ => Err(refused()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_struct_of_one_field_is_stored_as_the_value_in_it() {
        for code in ["enum Id { A }", "struct Id(i32, i32);", "struct Id;", "struct Id {}"] {
            let input = syn::parse_str(code).unwrap();
            for expand in [as_key, into_id] {
                let error = expand(&input).unwrap_err().to_string();
                assert!(error.contains("a struct of one field"), "{code}: {error}");
            }
        }
    }
}
