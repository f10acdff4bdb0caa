//! The time limits of the example `service`: a slow client loses its connection.

use std::net::SocketAddr;
use std::time::Duration;

use futures::future::join_all;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::service::support::*;

/// A server that does not exist. Some responses do not need one.
const NO_SERVER: &str = "mongodb://127.0.0.1:1/?replicaSet=none&serverSelectionTimeoutMS=100";

/// Starts a service whose clients have one second for the headers of a request, for its body, and between requests.
async fn impatient(uri: &str) -> Service {
    let mut program = program(uri);
    program.env("READ_TIMEOUT", "1");
    Service::spawn(program).await
}

async fn connect(service: SocketAddr, request: &str) -> TcpStream {
    let mut stream = TcpStream::connect(service).await.unwrap();
    stream.write_all(request.as_bytes()).await.unwrap();
    stream
}

/// Returns what the service sends before it closes the connection.
async fn until_closed(mut stream: TcpStream) -> String {
    let mut received = String::new();
    let closed = stream.read_to_string(&mut received);
    in_time("the service does not close the connection", closed)
        .await
        .unwrap();
    received
}

#[tokio::test]
async fn connections_that_send_no_request_in_time_are_closed() {
    let service = impatient(NO_SERVER).await;
    let address = service.address;
    let halves = [
        "",
        "GET ",
        "GET / HTTP/1.1\r\nhost: a\r\n",
        "GET / HTTP/1.1\r\nhost: a\r\naccept: te",
    ];
    let received = halves.map(|half| async move { (half, until_closed(connect(address, half).await).await) });
    let byte_by_byte = a_header_byte_by_byte_is_closed(address);
    // The last one is idle after a response.
    let idle = async { until_closed(connect(address, "GET /health/live HTTP/1.1\r\nhost: a\r\n\r\n").await).await };
    let (received, (), idle) = tokio::join!(join_all(received), byte_by_byte, idle);
    for (half, received) in received {
        assert_eq!(received, "", "after {half:?}");
    }
    assert!(idle.starts_with("HTTP/1.1 204 No Content\r\n"), "{idle}");
    assert_eq!(get(address, "/health/live").await.status, 204);
}

async fn a_header_byte_by_byte_is_closed(service: SocketAddr) {
    let stream = connect(service, "GET / HTTP/1.1\r\nx: ").await;
    let (mut reading, mut writing) = stream.into_split();
    let trickle = async {
        let mut pace = tokio::time::interval(Duration::from_millis(50));
        // A write to a closed connection is an error.
        while writing.write_all(b"x").await.is_ok() {
            pace.tick().await;
        }
    };
    let mut received = vec![];
    let closed = async {
        tokio::select! {
            // An error is a reset of the connection.
            _ = reading.read_to_end(&mut received) => {}
            () = trickle => {}
        }
    };
    in_time("the service does not close the connection", closed).await;
    assert_eq!(received, b"");
}

#[tokio::test]
async fn a_body_that_is_not_sent_in_time_is_a_problem() {
    let service = impatient(&uri().await).await;
    service.wait_for("/health/ready", 200).await;
    let half = "POST /customers/123/trades HTTP/1.1\r\nhost: a\r\naccept: application/json\r\n\
        content-type: application/x-www-form-urlencoded\r\ncontent-length: 40\r\n\r\nid=slow&kind=buy";
    let received = until_closed(connect(service.address, half).await).await;
    assert!(received.starts_with("HTTP/1.1 408 Request Timeout\r\n"), "{received}");
    assert!(received.contains("\"type\":\"/problems#slow\""), "{received}");
    let trade = get(service.address, "/customers/123/trades/slow").await;
    assert_eq!(trade.status, 404);
}

#[tokio::test]
async fn an_invalid_timeout_is_an_error_at_the_start() {
    for (variable, invalid) in [
        ("READ_TIMEOUT", "0"),
        ("READ_TIMEOUT", "61"),
        ("READ_TIMEOUT", "-1"),
        ("READ_TIMEOUT", "1.5"),
        ("READ_TIMEOUT", "10s"),
        ("READ_TIMEOUT", " "),
        ("REQUEST_TIMEOUT", "0"),
    ] {
        let ended = program(NO_SERVER).env(variable, invalid).output().await.unwrap();
        assert!(!ended.status.success(), "{invalid:?}");
        assert_eq!(ended.stdout, b"", "{invalid:?}: the service does not listen");
        let error = String::from_utf8(ended.stderr).unwrap();
        let expected = format!("{variable} is invalid: set it to");
        assert!(error.contains(&expected), "{invalid:?}: {error}");
    }
}
