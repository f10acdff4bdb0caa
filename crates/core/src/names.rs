//! Names of the variants of an enum, for programs.

/// Implements `name()` for an enum. All variants must be listed.
#[doc(hidden)]
#[macro_export]
macro_rules! names {
    ($name:ident: $($variant:ident),+ $(,)?) => {
        impl $name {
            /// Returns the name of the variant, by which programs recognize it. It stays the same in later versions.
            #[must_use]
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$variant { .. } => stringify!($variant),)+
                }
            }
        }
    };
}

#[cfg(test)]
#[allow(unreachable_pub)] // the macro is for public enums
mod tests {
    enum Problem {
        Empty,
        Count { _items: u64 },
        Named(()),
    }
    names!(Problem: Empty, Count, Named);

    #[test]
    fn a_name_has_no_values() {
        let problems = [Problem::Empty, Problem::Count { _items: 5 }, Problem::Named(())];
        assert_eq!(problems.map(|problem| problem.name()), ["Empty", "Count", "Named"]);
    }
}
