//! The stored names of fields as constants.

use proc_macro2::{Span, TokenStream};
use quote::{format_ident, quote};
use serde_derive_internals::ast::{Container, Data, Field, Style};
use serde_derive_internals::{Ctxt, Derive};
use syn::ext::IdentExt;
use syn::{DeriveInput, Ident, Member};

pub(crate) fn expand(input: &DeriveInput) -> syn::Result<TokenStream> {
    let context = Ctxt::new();
    // The name is for code that serde generates, of which there is none here.
    let private = Ident::new("__private", Span::call_site());
    let container = Container::from_ast(&context, input, Derive::Serialize, &private);
    let constants = container.map(|container| constants(&context, input, &container));
    context.check()?;
    let constants = constants.unwrap_or_default();
    let name = &input.ident;
    let (of_impl, of_type, bounds) = input.generics.split_for_impl();
    Ok(quote! {
        #[allow(dead_code)]
        impl #of_impl #name #of_type #bounds {
            #(#constants)*
        }
    })
}

/// Reports problems in the context.
fn constants(context: &Ctxt, input: &DeriveInput, container: &Container<'_>) -> Vec<TokenStream> {
    let attributes = &container.attrs;
    let is_other_type = attributes.type_into().is_some()
        || attributes.type_from().is_some()
        || attributes.type_try_from().is_some()
        || attributes.remote().is_some()
        || attributes.transparent();
    if is_other_type {
        context.error_spanned_by(
            &input.ident,
            "serde stores this type as another one: derive Fields for that type",
        );
        return Vec::new();
    }
    match &container.data {
        Data::Struct(Style::Struct, fields) => {
            let constants = fields.iter().filter_map(|field| constant(context, input, field));
            constants.collect()
        }
        _ => {
            context.error_spanned_by(&input.ident, "Fields needs a struct whose fields have names");
            Vec::new()
        }
    }
}

fn constant(context: &Ctxt, input: &DeriveInput, field: &Field<'_>) -> Option<TokenStream> {
    let attributes = &field.attrs;
    if attributes.flatten() || (attributes.skip_serializing() && attributes.skip_deserializing()) {
        return None;
    }
    let Member::Named(ident) = &field.member else {
        return None;
    };
    let (stored, read) = (attributes.name().serialize_name(), attributes.name().deserialize_name());
    if stored.value != read.value {
        let problem = format!(
            "this field is stored as `{}` and read as `{}`: one name is needed",
            stored.value, read.value
        );
        context.error_spanned_by(ident, problem);
        return None;
    }
    let ident = ident.unraw();
    let constant = format_ident!("{}", ident.to_string().to_uppercase(), span = ident.span());
    let visibility = &input.vis;
    let stored = &stored.value;
    let documentation = format!("The stored name of the field `{ident}`.");
    Some(quote! {
        #[doc = #documentation]
        #visibility const #constant: &'static str = #stored;
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn expanded(code: &str) -> String {
        expand(&syn::parse_str(code).unwrap()).unwrap().to_string()
    }

    fn error(code: &str) -> String {
        expand(&syn::parse_str(code).unwrap()).unwrap_err().to_string()
    }

    #[test]
    fn names_are_those_that_serde_stores() {
        let code = expanded(
            r#"#[serde(rename_all = "camelCase")]
            pub struct Trade<T> {
                unit_price: T,
                #[serde(rename = "_id")]
                id: i32,
                r#type: String,
                #[serde(skip)]
                skipped: bool,
                #[serde(flatten)]
                rest: Rest,
                #[serde(skip_deserializing)]
                written: i32,
            }"#,
        );
        for part in [
            "impl < T > Trade < T >",
            r#"pub const UNIT_PRICE : & 'static str = "unitPrice" ;"#,
            r#"pub const ID : & 'static str = "_id" ;"#,
            r#"pub const TYPE : & 'static str = "type" ;"#,
            r#"pub const WRITTEN : & 'static str = "written" ;"#,
        ] {
            assert!(code.contains(part), "{part}: {code}");
        }
        assert!(!code.contains("SKIPPED") && !code.contains("REST"), "{code}");
    }

    #[test]
    fn constants_have_the_visibility_of_the_struct() {
        let code = expanded("pub(crate) struct Trade { pub date: DateTime }");
        assert!(code.contains("pub (crate) const DATE"), "{code}");
        assert!(expanded("struct Trade { pub date: DateTime }").contains("`date`.\"] const DATE"));
    }

    #[test]
    fn what_has_no_stored_names_does_not_compile() {
        for code in ["enum Kind { A }", "struct Pair(i32, i32);", "struct Unit;"] {
            assert!(error(code).contains("a struct whose fields have names"), "{code}");
        }
        for attribute in [
            r#"into = "Other""#,
            r#"from = "Other""#,
            r#"try_from = "Other""#,
            "transparent",
        ] {
            let code = format!("#[serde({attribute})] struct Trade {{ date: DateTime }}");
            assert!(error(&code).contains("serde stores this type as another one"), "{code}");
        }
        let renamed = r#"struct Trade { #[serde(rename(serialize = "d", deserialize = "date"))] date: DateTime }"#;
        assert!(error(renamed).contains("stored as `d` and read as `date`"));
        assert!(
            error("struct Trade { #[serde(renamed = \"d\")] date: DateTime }")
                .contains("unknown serde field attribute")
        );
    }
}
