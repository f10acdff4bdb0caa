use super::delete::Until;
use super::*;
use crate::traces::{Code, all, alone};

fn append(items: &[u8]) -> Client {
    Client::Append(Append::new(items))
}

fn remove(item: u8) -> Client {
    Client::Remove(Remove::new(item))
}

fn delete() -> Client {
    Client::Delete(Delete::new(Until::NoneIsLeft))
}

fn bucket(starts: Vec<(Buckets, Vec<Client>)>) -> Bucket {
    Bucket {
        rules: Rules {
            form: Form::Ours,
            page_size: 2,
            item_ids: true,
        },
        starts,
    }
}

fn sent(bucket: &Bucket, buckets: &Buckets, clients: &[Client]) -> Vec<&'static str> {
    let mut buckets = buckets.clone();
    let mut sent = Vec::new();
    for client in clients {
        sent.extend(alone(bucket, &mut buckets, client.clone()));
    }
    sent
}

#[test]
fn the_code_sends_the_commands_of_the_model() {
    let mut code = Code::of("bucket");
    code.leave_out("in the caller's transaction");
    let with_ids = bucket(Vec::new());
    let mut without_ids = with_ids.clone();
    without_ids.rules.item_ids = false;
    let (open, full) = (Buckets::of(&[(0, &[0, 1]), (1, &[2])]), Buckets::of(&[(0, &[0, 1])]));
    let mut compare = |of: &str, bucket: &Bucket, buckets: &Buckets, clients: &[Client]| {
        let (table, operation) = of.split_once(' ').unwrap();
        let sent = sent(bucket, buckets, clients);
        code.sends(&format!("{table} BucketRepository::{operation}"), &sent);
    };

    for (case, bucket, buckets, item) in [
        ("Histories append, into the open page", &with_ids, &open, 4),
        ("Histories append, into a new page", &with_ids, &full, 14),
        ("Histories append, with a time, into a new page", &with_ids, &full, 14),
        ("Histories append, of a stored item", &with_ids, &open, 1),
        ("Histories append, without an item id", &without_ids, &open, 4),
    ] {
        compare(&format!("bucket::{case}"), bucket, buckets, &[append(&[item])]);
    }
    compare(
        "bucket_figures::Figured append, with figures",
        &with_ids,
        &full,
        &[append(&[14])],
    );
    compare(
        "bucket_windows::Windowed append, into a new window",
        &with_ids,
        &full,
        &[append(&[14])],
    );
    compare(
        "bucket_windows::Windowed append, of a late item, with windows",
        &with_ids,
        &full,
        &[append(&[14])],
    );
    // The items of the calls that wait for the first one join.
    let (first, others) = ([4], [5, 14, 15, 16, 17]);
    let mut of_three = with_ids.clone();
    of_three.rules.page_size = 3;
    compare(
        "bucket::Histories append, of six calls, of which five are sent together",
        &of_three,
        &Buckets::of(&[(0, &[0, 1, 2]), (1, &[3])]),
        &[append(&first), append(&others)],
    );

    compare(
        "bucket::Histories append_many, onto three pages",
        &with_ids,
        &open,
        &[append(&[4, 14, 15, 16])],
    );
    compare(
        "bucket::Histories append_many, some of which are stored",
        &with_ids,
        &open,
        &[append(&[1, 2, 4, 14, 15])],
    );
    compare(
        "bucket::Histories append_many, without item ids, of a new key",
        &without_ids,
        &Buckets::default(),
        &[append(&[4, 5, 14])],
    );
    compare(
        "bucket_figures::Figured append_many, with figures",
        &with_ids,
        &open,
        &[append(&[4, 14, 15])],
    );
    compare(
        "bucket_windows::Windowed append_many, into three windows",
        &with_ids,
        &open,
        &[append(&[4, 14, 15])],
    );

    let two = Buckets::of(&[(0, &[0, 1]), (1, &[2, 3])]);
    compare(
        "bucket::Histories remove_item, from a full page",
        &with_ids,
        &two,
        &[remove(0)],
    );
    compare(
        "bucket_figures::Figured remove_item, with figures",
        &with_ids,
        &two,
        &[remove(0)],
    );
    compare(
        "bucket_windows::Windowed remove_item, with windows",
        &with_ids,
        &two,
        &[remove(0)],
    );
    compare(
        "bucket::Histories remove_item, the only item of the open page",
        &with_ids,
        &open,
        &[remove(2)],
    );
    compare("bucket::Histories delete_key", &with_ids, &open, &[delete()]);

    let every = bucket(vec![
        (two, vec![remove(0), append(&[4]), delete()]),
        (open.clone(), vec![remove(0), append(&[4, 5, 6]), append(&[5])]),
        (open, vec![remove(2), append(&[4]), append(&[15])]),
    ]);
    // A removal that is retried locks the open bucket first.
    code.has_no_trace_of(&all(every), ["begin: updateMany trades", "then: updateMany trades"]);
}
