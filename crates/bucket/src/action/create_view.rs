use mongo_patterns_core::error::code;

use crate::action::prelude::*;
use crate::query::across::ItemFilter;

/// `NamespaceExists`, and how some servers report it for a view.
const EXISTS: [i32; 2] = [48, 17399];

impl<K: Key, T> BucketRepository<K, T> {
    /// Creates a view of the items of all keys in the same database, one document an item, for programs that know nothing
    /// of buckets.
    ///
    /// ```no_run
    /// # use mongo_patterns::bucket::BucketRepository;
    /// # use mongo_patterns::mongodb::{Database, bson::{Document, doc}};
    /// # async fn f(trades: BucketRepository<u32, i32>, database: Database) -> mongo_patterns::mongodb::error::Result<()> {
    /// trades.create_view("all_trades").await?;
    /// let of_mdb = database.collection::<Document>("all_trades").count_documents(doc! { "ticker": "MDB" }).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// A document of the view is as for [`items_pipeline`](Self::items_pipeline). The call is idempotent: a view with this
    /// name and definition is left as it is.
    ///
    /// # Cost
    /// Two round trips, or three if the name is taken. It stores no data: each read of the view runs the stages again. No index
    /// serves a filter on the view; [`find_items`](Self::find_items) and `items_pipeline` use indexes.
    ///
    /// # Cancel safety
    /// When the future is dropped, the view may be created or not. Call it again.
    ///
    /// # Errors
    /// [`SettingsMismatch`] if a collection, or a view with another definition, has this name, or if the
    /// [catalog](mongo_patterns_core::catalog) has other settings. Nothing is changed then. Those of the driver.
    pub fn create_view(&self, name: impl Into<String>) -> CreateView<'_> {
        CreateView {
            shared: self.shared(),
            view: name.into(),
        }
    }
}

mongo_patterns_core::action! {
    /// Creates a view of the items; returned by [`BucketRepository::create_view`].
    pub struct CreateView<'a> {
        shared: &'a Shared,
        view: String,
    }
    "create_view" => ()
}

impl CreateView<'_> {
    async fn execute(self) -> Result<()> {
        self.shared.ensure().check_settings().await?;
        let (collection, settings) = self.shared.parts();
        let database = collection.client().database(&collection.namespace().db);
        let pipeline = ItemFilter::default().items(settings);
        let view = doc! { "create": &self.view, "viewOn": collection.name(), "pipeline": &pipeline };
        let Err(error) = Conn::new().run_command(&database, view).await else {
            return Ok(());
        };
        if code(error.error()).is_none_or(|code| !EXISTS.contains(&code)) {
            return Err(error.into());
        }
        let options = send::collection_options(&database, &self.view).await?;
        let expected = doc! { "viewOn": collection.name(), "pipeline": pipeline };
        if options.is_some_and(|options| expected.iter().all(|(name, value)| options.get(name) == Some(value))) {
            return Ok(());
        }
        Err(Error::new(
            ErrorKind::SettingsMismatch,
            "the name of the view belongs to a collection, or to a view with another definition: choose another name, or drop it",
        ))
    }
}
