use super::*;

fn parsed(code: &str) -> Vec<Call> {
    let items = syn::parse_file(code).unwrap().items;
    let outputs = outputs(&items);
    let methods = items.iter().flat_map(|item| methods(item, "Trash"));
    methods
        .filter_map(|(signature, attributes)| call("Trash", signature, attributes, &outputs))
        .collect()
}

#[test]
fn a_write_has_a_section_on_dropped_calls_and_a_read_is_safe() {
    let calls = parsed(
        r#"
        impl<D> Trash<D> {
            /// Deletes.
            ///
            /// # Cost
            /// One round trip.
            pub fn delete(&self) -> Write<'_, Deleted> { Write::new(self) }
            /// Reads.
            ///
            /// # Cost
            /// One round trip.
            pub fn get(&self) -> Read<'_, u32> { Read::new(self) }
        }
        "#,
    );
    let problems: Vec<_> = calls.iter().map(problem).collect();
    assert_eq!(problems[1], None);
    assert!(problems[0].as_ref().unwrap().contains("without `# Cancel safety`"));
    assert_eq!(dropped(section(&calls[1].docs, "# Cancel safety")), "safe");
}

#[test]
fn a_call_is_read_with_its_result_and_its_sentences() {
    let calls = parsed(
        r#"
        mongo_patterns_core::action! {
            pub struct Empty<'a> { shared: &'a Shared, }
            "empty" => Deleted where D: Sized
        }
        impl<D> Trash<D> {
            /// Deletes [old](Self::list) entries, or all. More text.
            ///
            /// # Cost
            /// Two round trips: a | b. More.
            ///
            /// # Cancel safety
            /// Some are deleted.
            pub fn empty(&self, time: DateTime) -> Empty<'_> { Empty { shared: self.shared() } }
            /// Returns a setting.
            pub fn size(&self) -> u32 { 1 }
        }
        "#,
    );
    let [call] = &calls[..] else { panic!("{calls:?}") };
    assert_eq!((call.action.as_str(), call.result.as_str()), ("Empty", "Deleted"));
    assert_eq!(sentence(&call.docs), "Deletes old entries, or all");
    assert_eq!(sentence(section(&call.docs, "# Cost")), "Two round trips: a \\| b");
    assert_eq!(call.arguments, ["time"]);
    let refused = problem(call).unwrap();
    assert!(refused.contains("without a verb"), "{refused}");
}
