//! The set-up of the repositories of all patterns.

use mongo_patterns::{ErrorKind, Repository};
use mongo_patterns_testkit as testkit;

use support::repositories::Repositories;

#[tokio::test]
async fn one_loop_sets_up_the_repositories_of_all_patterns() {
    testkit::run(async |db| {
        let repositories = Repositories::new(db.database());
        let mut created = Vec::new();
        for repository in repositories.all() {
            for plan in repository.indexes() {
                let missing = plan.missing().await.unwrap();
                assert_eq!(missing, plan.indexes(), "{plan}");
                let error = plan.check().await.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::IndexMissing);
            }
            let ensured = repository.ensure_indexes().await.unwrap();
            created.push((repository.pattern(), ensured.created.len()));
            for plan in repository.indexes() {
                plan.check().await.unwrap();
                assert_eq!(plan.missing().await.unwrap(), []);
            }
            let again = repository.ensure_indexes().await.unwrap();
            assert_eq!((again.created, again.existing), (vec![], ensured.created));
            assert_eq!(repository.verify_shard_keys().await.unwrap(), []);
        }
        let expected = [
            ("bucket", 2),
            ("outlier", 2),
            ("subset", 2),
            ("embedded", 0),
            ("history", 3),
            ("reference", 1),
        ];
        assert_eq!(created, expected);
        let names = |repository: &dyn Repository| {
            let names = repository.namespaces().into_iter().map(|namespace| namespace.coll);
            names.collect::<Vec<_>>()
        };
        let names = repositories.all().map(names);
        let expected: [&[&str]; 6] = [
            &["trades"],
            &["sales", "extra_sales"],
            &["product", "review"],
            &["patron"],
            &["currentPolicies", "policyRevisions"],
            &["orders", "customers"],
        ];
        assert_eq!(names, expected);
        let validators = repositories.all().map(|repository| repository.validators().len());
        assert_eq!(validators, [1, 2, 2, 1, 2, 2]);
    })
    .await;
}
