//! Enums of problems, and of the reasons for which they stay.

/// Defines an enum whose variants have a text and a stable name. The text can contain the values of the variant.
///
/// ```text
/// problems! {
///     /// A kind of problem. Its text says what to do, and contains no user value.
///     #[serde(tag = "problem")]
///     pub enum Problem {
///         /// The copy is older than its source.
///         Stale {
///             /// The version of the copy.
///             version: u64,
///         } = "the copy has the version {version}: call repair()",
///         /// The source does not exist.
///         SourceMissing = "the source does not exist: insert it again",
///     }
/// }
/// ```
#[doc(hidden)]
#[macro_export]
macro_rules! problems {
    (
        $(#[$attribute:meta])*
        pub enum $name:ident {
            $(
                $(#[$of_variant:meta])*
                $variant:ident $({ $($(#[$of_field:meta])* $field:ident: $type:ty,)+ })? = $text:literal,
            )+
        }
    ) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, ::serde::Serialize)]
        $(#[$attribute])*
        #[non_exhaustive]
        pub enum $name {
            $($(#[$of_variant])* $variant $({ $($(#[$of_field])* $field: $type,)+ })?,)+
        }

        impl $name {
            /// Returns the name of the variant, by which programs recognize it. It stays the same in later versions.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }

        impl ::std::fmt::Display for $name {
            #[allow(unused_variables)] // not every text has all values
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                match self {
                    $(Self::$variant $({ $($field),+ })? => write!(f, $text),)+
                }
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub, missing_docs)] // the macro is for public enums
mod tests {
    problems! {
        #[serde(tag = "problem")]
        pub enum Problem {
            Empty = "there is nothing",
            Count { items: u64, of: u64, } = "there are {items} items",
        }
    }

    #[test]
    fn a_name_has_no_values_and_a_text_has_them() {
        let problems = [Problem::Empty, Problem::Count { items: 5, of: 7 }];
        assert_eq!(problems.map(|problem| problem.name()), ["Empty", "Count"]);
        let texts = problems.map(|problem| problem.to_string());
        assert_eq!(texts, ["there is nothing", "there are 5 items"]);
    }
}
