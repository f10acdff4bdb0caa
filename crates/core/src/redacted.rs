//! `Debug` without user values, and `Clone` without bounds.

/// Implements `Debug` with the name of a type and the given fields. A derived one would print keys, items and ids.
#[doc(hidden)]
#[macro_export]
macro_rules! redacted_debug {
    ($name:ident<'_ $(, $parameter:ident)*> $($fields:tt)*) => {
        $crate::redacted_debug!(@ [$($parameter),*] [$name<'_ $(, $parameter)*>] $name $($fields)*);
    };
    ($name:ident<$($parameter:ident),*> $($fields:tt)*) => {
        $crate::redacted_debug!(@ [$($parameter),*] [$name<$($parameter),*>] $name $($fields)*);
    };
    ($name:ident $($fields:tt)*) => {
        $crate::redacted_debug!(@ [] [$name] $name $($fields)*);
    };
    (@ [$($parameter:ident),*] [$of:ty] $name:ident $(, |$this:ident| $($field:literal = $value:expr),+)?) => {
        impl<$($parameter),*> ::std::fmt::Debug for $of {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                $(let $this = self; $(shown.field($field, &$value);)+)?
                shown.finish_non_exhaustive()
            }
        }
    };
}

/// Implements `Clone` by these fields, which are all of the type. A derived one would require it of the type parameters.
#[doc(hidden)]
#[macro_export]
macro_rules! clone_fields {
    ($name:ident<$($parameter:ident),*>, $($field:ident),+) => {
        impl<$($parameter),*> Clone for $name<$($parameter),*> {
            fn clone(&self) -> Self {
                Self { $($field: self.$field.clone()),+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_given_fields_are_printed() {
        struct Plain;
        struct Action<'a, T> {
            name: &'a str,
            _value: T,
        }
        struct Builder<K>(K);
        redacted_debug!(Plain);
        redacted_debug!(
            Action<'_, T>,
            |action| "name" = action.name,
            "length" = action.name.len()
        );
        redacted_debug!(Builder<K>);
        let action = Action {
            name: "a",
            _value: "secret",
        };
        assert_eq!(format!("{action:?}"), "Action { name: \"a\", length: 1, .. }");
        assert_eq!(format!("{Plain:?} {:?}", Builder(5).0), "Plain { .. } 5");
        assert_eq!(format!("{:?}", Builder(5)), "Builder { .. }");
    }
}
