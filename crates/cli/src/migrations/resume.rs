//! The command that resumes a migration, by its record.

use mongo_patterns_core::catalog::MigrationRecord;
use mongodb::bson::Bson;

use crate::command::{Command, of_program};

/// Returns the command, and which of its options the record does not tell. `None` for a pattern without one.
pub(crate) fn command(record: &MigrationRecord) -> Option<(Command, &'static str)> {
    let settings = &record.settings;
    let text = |name: &str| settings.get_str(name).ok();
    let (source, target) = (text("source")?, record.collection.as_str());
    let mut command = of_program(text("pattern")?);
    match (text("pattern")?, text("into")?) {
        ("bucket", "flat") => command.option("collection", source).option("flat", target),
        ("bucket", _) => command.option("collection", target).option("flat", source),
        ("subset", _) => command.option("collection", source).option("subset", text("subset")?),
        ("reference", _) => {
            let fields = settings.get_array("fields").ok()?.iter().filter_map(Bson::as_document);
            let fields = fields.filter_map(|one| Some((one.get_str("field").ok()?, one.get_str("ids").ok()?)));
            let fields: Vec<(&str, &str)> = fields.collect();
            let other = fields.iter().filter(|(field, ids)| field != ids);
            let other: Vec<String> = other.map(|(field, ids)| format!("{field}={ids}")).collect();
            command
                .option("collection", target)
                .option("reference", fields.first()?.0);
            command.verb("migrate");
            match other.is_empty() {
                true => &mut command,
                false => command.option("from-field", &other.join(",")),
            }
        }
        _ => return None,
    };
    if text("pattern") == Some("bucket") {
        for (name, option) in [("flatKey", "flat-key"), ("timeFormat", "time-format")] {
            if let Some(value) = text(name).filter(|value| text("key") != Some(value)) {
                command.option(option, value);
            }
        }
        if settings.get_bool("keepIds").unwrap_or(false) {
            command.verb("--keep-ids");
        }
        command.verb("migrate");
    }
    match text("into") {
        Some("flat") => command.verb("--back"),
        Some("children") => command.verb("migrate --from embedded"),
        _ => &mut command,
    };
    if let Some(list) = text("skipInvalid") {
        command.option("skip-invalid", list);
    }
    let further = match settings.contains_key("filter") {
        true => ", with its --where",
        false => "",
    };
    Some((command, further))
}
