//! DVSR with packets: the paper's scenarios and others, against RIAS.

mod ring_packets;

use fairspan_core::units::Time;
use ring_packets::{Flow, OC12, Setup};

const C: f64 = OC12 as f64;

fn ms(n: u64) -> Time {
    Time::from_millis(n)
}

#[test]
fn explore() {
    let all = |from, to| Flow::new(from, to, C);
    let cases: Vec<(&str, Setup)> = vec![
        ("parking lot", Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5)])),
        ("parallel", Setup::new(10, vec![all(1, 2), all(1, 5), all(2, 5), all(3, 5), all(4, 5)])),
        ("two exit", Setup::new(10, vec![all(1, 5), all(2, 5), all(3, 5), all(4, 5), all(4, 6)])),
        ("figure 5", Setup::new(10, vec![all(1, 2), all(1, 3), all(1, 4), all(1, 5), all(2, 5), all(4, 5)])),
        ("upstream", Setup::new(10, vec![all(1, 3), all(2, 6), all(3, 6), all(4, 6), all(5, 6)])),
        ("622/5", Setup::new(10, vec![all(1, 3), Flow::new(2, 3, 5e6)])),
        ("5/600", Setup::new(10, vec![Flow::new(1, 3, 5e6), Flow::new(2, 3, 600e6)])),
        ("622/200", Setup::new(10, vec![all(1, 3), Flow::new(2, 3, 200e6)])),
    ];
    for (name, setup) in cases {
        let flows = setup.flows.clone();
        let outcome = setup.run(ms(400));
        println!("== {name}: queued {:?} waiting {:?}", &outcome.queued[..6], &outcome.waiting[..6]);
        for (n, flow) in flows.iter().enumerate() {
            let limits = &outcome.limits[n];
            println!(
                "({},{}) received {:.5} limit {:.5} swing {:.5} settled {:.2} ms, steps {}",
                flow.from,
                flow.to,
                outcome.received[n] / C,
                limits.mean() / C,
                limits.swing() / C,
                limits.settled_at(ms(400)).as_secs_f64() * 1e3,
                limits.steps.len()
            );
            if (name == "figure 5" || name == "parking lot") && n == 0 {
                println!(
                    "{:?}",
                    limits.steps.iter().map(|s| (s.0.as_nanos() / 10000, (s.1 / C * 1e5) as u32)).collect::<Vec<_>>()
                );
            }
        }
    }
}
