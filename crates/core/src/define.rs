//! The definition of repositories and of their builders.

/// Defines a repository: a cheap handle over `Shared`, which has what its calls share.
///
/// ```text
/// repository! {
///     /// A repository over …
///     pub struct EmbeddedRepository<P, C>;
///     "embedded": |shared| shared.collection, max_time: shared.settings.max_time, "settings" = shared.settings
/// }
/// ```
///
/// After the name of the pattern come the collection that its calls name, the bound of the time of its reads, and what
/// `Debug` prints besides. Expands to the struct with `Clone` and `Debug`, its methods `of` and `shared`, and for `Shared` a
/// `Debug` and the method `operation`, which returns the [`Call`](crate::action::Call) of a method.
#[doc(hidden)]
#[macro_export]
macro_rules! repository {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident $(<$($param:ident),+>)?;
        $pattern:literal: |$shared:ident| $collection:expr, max_time: $max_time:expr $(, $shown:literal = $value:expr)*
    ) => {
        $(#[$attribute])*
        pub struct $name $(<$($param),+>)? {
            shared: ::std::sync::Arc<Shared>,
            types: ::std::marker::PhantomData<fn() -> ($($($param,)+)?)>,
        }

        impl $(<$($param),+>)? $name $(<$($param),+>)? {
            pub(crate) fn of(shared: Shared) -> Self {
                let (shared, types) = (::std::sync::Arc::new(shared), ::std::marker::PhantomData);
                Self { shared, types }
            }

            pub(crate) fn shared(&self) -> &::std::sync::Arc<Shared> {
                &self.shared
            }
        }

        impl $(<$($param),+>)? $crate::sealed::Sealed for $name $(<$($param),+>)? {}

        impl $(<$($param),+>)? ::std::clone::Clone for $name $(<$($param),+>)? {
            fn clone(&self) -> Self {
                Self { shared: self.shared.clone(), types: self.types }
            }
        }

        impl $(<$($param),+>)? ::std::fmt::Debug for $name $(<$($param),+>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let ($shared, mut shown) = (&*self.shared, f.debug_struct(stringify!($name)));
                shown.field("collection", &$collection.namespace());
                $(shown.field($shown, &$value);)*
                shown.finish_non_exhaustive()
            }
        }

        $crate::redacted_debug!(Shared, |$shared| "collection" = $collection.namespace());

        impl Shared {
            pub(crate) fn operation(&self, operation: &'static str) -> $crate::action::Call<'_> {
                let $shared = self;
                let call = $crate::action::Call::new($pattern, operation, &$collection);
                $crate::action::Call { max_time: $max_time, ..call }
            }
        }
    };
}

/// Defines a builder: what it is over, its settings with their defaults, and their [setters](crate::setters).
///
/// ```text
/// builder! {
///     /// Builds a repository; returned by [`EmbeddedRepository::builder`].
///     pub struct EmbeddedRepositoryBuilder<P, C> over collection: Collection<RawDocumentBuf> {
///         children: Option<String>,
///         max_children: u32 = 100,
///     }
///     with retry, max_time;
///
///     /// Sets the maximum number of children of a parent; 100 by default.
///     max_children(children: u32) => max_children = children;
/// }
/// ```
///
/// Expands to the struct with `Clone`, a `Debug` that prints the first collection, and a private `over`. `with retry,
/// max_time` are two further settings; a literal after `retry` is the rest of its documentation.
#[doc(hidden)]
#[macro_export]
macro_rules! builder {
    (
        $(#[$attribute:meta])*
        pub struct $name:ident<$($param:ident),+> over $($over:ident: $of:ty),+ { $($settings:tt)* }
        with retry $($of_retry:literal)?, max_time;
        $($setters:tt)*
    ) => {
        $crate::builder! {
            $(#[$attribute])*
            pub struct $name<$($param),+> over $($over: $of),+ {
                $($settings)*
                retry: $crate::RetryPolicy,
                max_time: ::std::option::Option<::std::time::Duration>,
            }

            $($setters)*

            /// Sets how often, and for how long, a write retries after conflicts with other writers.
            $(#[doc = $of_retry])?
            retry(policy: $crate::RetryPolicy) => retry = policy;

            /// Bounds the time of each command of a read on the server (`maxTimeMS`). By default a read takes as long as it
            /// needs. See [time limits](mongo_patterns_core::action#time-limits).
            max_time(time: ::std::time::Duration) => max_time = Some(time);
        }
    };
    (
        $(#[$attribute:meta])*
        pub struct $name:ident $(<$($param:ident),+>)? over $first:ident: $of_first:ty $(, $more:ident: $of_more:ty)* {
            $($(#[$of_field:meta])* $field:ident: $type:ty $(= $default:expr)?,)+
        }
        $($setters:tt)*
    ) => {
        $(#[$attribute])*
        #[must_use = "a builder does nothing until build() is called"]
        pub struct $name $(<$($param),+>)? {
            $first: $of_first,
            $($more: $of_more,)*
            $($(#[$of_field])* $field: $type,)+
            types: ::std::marker::PhantomData<fn() -> ($($($param,)+)?)>,
        }

        impl $(<$($param),+>)? $name $(<$($param),+>)? {
            fn over($first: $of_first $(, $more: $of_more)*) -> Self {
                Self {
                    $first,
                    $($more,)*
                    $($field: $crate::builder!(@default $($default)?),)+
                    types: ::std::marker::PhantomData,
                }
            }

            $crate::setters! { $($setters)* }
        }

        impl $(<$($param),+>)? ::std::clone::Clone for $name $(<$($param),+>)? {
            fn clone(&self) -> Self {
                Self {
                    $first: self.$first.clone(),
                    $($more: self.$more.clone(),)*
                    $($field: self.$field.clone(),)+
                    types: self.types,
                }
            }
        }

        impl $(<$($param),+>)? ::std::fmt::Debug for $name $(<$($param),+>)? {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                let mut shown = f.debug_struct(stringify!($name));
                shown.field("collection", &self.$first.namespace()).finish_non_exhaustive()
            }
        }
    };
    (@default) => { ::std::default::Default::default() };
    (@default $default:expr) => { $default };
}
