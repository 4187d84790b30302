//! The configuration for the OpenTelemetry Collector in `docs/grafana`, and what `docs/web.md` says of it, hold without a collector too.

use super::CONTENT_TYPE;
use super::board::{ALARMS, asked, metrics};
use std::collections::BTreeSet;
use yaml_rust2::{Yaml, YamlLoader};

const COLLECTOR: &str = include_str!("../../../../docs/grafana/otel-collector.yaml");
const PAGE: &str = include_str!("../../../../docs/web.md");
const SETTINGS: &str = include_str!("../../../../docs/settings.md");

/// The one document of a text.
fn yaml(text: &str) -> Yaml {
    let mut documents = YamlLoader::load_from_str(text).expect("YAML");
    assert_eq!(documents.len(), 1);
    documents.remove(0)
}

fn keys(table: &Yaml) -> Vec<&str> {
    table.as_hash().expect("a table").keys().map(|key| key.as_str().expect("a text")).collect()
}

fn texts(list: &Yaml) -> Vec<&str> {
    list.as_vec().expect("a list").iter().map(|item| item.as_str().expect("a text")).collect()
}

/// What the page says under the heading of OpenTelemetry.
fn section() -> &'static str {
    let (_, rest) = PAGE.split_once("\n## OpenTelemetry\n").expect("a section");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

#[test]
fn the_collector_asks_where_a_daemon_of_the_documents_answers() {
    let file = yaml(COLLECTOR);
    let scrapes = &file["receivers"]["prometheus"]["config"]["scrape_configs"];
    assert_eq!(scrapes.as_vec().map(Vec::len), Some(1));
    let scrape = &scrapes[0];
    assert_eq!(keys(scrape), ["job_name", "scrape_interval", "static_configs"]);
    assert_eq!(scrape["static_configs"].as_vec().map(Vec::len), Some(1));
    let daemon = &scrape["static_configs"][0];
    assert_eq!(keys(daemon), ["targets", "labels"]);
    let targets = texts(&daemon["targets"]);
    assert_eq!(targets.len(), 1);
    let example = format!("| `metrics` | `\"{}\"` |", targets[0]);
    assert!(SETTINGS.contains(&example), "docs/settings.md has no {example}");
    assert_eq!(keys(&daemon["labels"]), ["instance"]);
    let port = targets[0].rsplit_once(':').expect("a port").1;
    let instance = daemon["labels"]["instance"].as_str().expect("a text");
    assert!(instance.ends_with(&format!(":{port}")), "{instance}");
    // A collector that is told nothing else asks for /metrics, and takes this.
    assert!(CONTENT_TYPE.starts_with("application/openmetrics-text; version=1.0.0"));
    for said in
        [&format!("`{}`", scrape["job_name"].as_str().expect("a name")), &format!("metrics = \"{}\"", targets[0])]
    {
        assert!(section().contains(said.as_str()), "docs/web.md does not say {said}");
    }
}

#[test]
fn the_collectors_parts_are_those_of_its_one_pipeline() {
    let file = yaml(COLLECTOR);
    assert_eq!(keys(&file), ["receivers", "exporters", "service"]);
    assert_eq!(keys(&file["service"]), ["pipelines"]);
    assert_eq!(keys(&file["service"]["pipelines"]), ["metrics"]);
    let pipeline = &file["service"]["pipelines"]["metrics"];
    assert_eq!(keys(pipeline), ["receivers", "exporters"]);
    for (kind, part) in [("receivers", "prometheus"), ("exporters", "otlp_http")] {
        assert_eq!(keys(&file[kind]), [part]);
        assert_eq!(texts(&pipeline[kind]), [part]);
        assert!(section().contains(&format!("`{part}`")), "docs/web.md does not name {part}");
    }
    assert_eq!(keys(&file["receivers"]["prometheus"]), ["config"]);
    assert_eq!(keys(&file["exporters"]["otlp_http"]), ["endpoint"]);
}

#[test]
fn the_page_names_each_variable_that_the_collector_reads_and_metrics_that_exist() {
    let variables: BTreeSet<_> = COLLECTOR
        .match_indices("${env:")
        .map(|(at, begin)| COLLECTOR[at + begin.len()..].split([':', '}']).next().expect("a name"))
        .collect();
    assert_eq!(variables.len(), 2, "{variables:?}");
    for variable in variables {
        assert!(section().contains(&format!("`{variable}`")), "docs/web.md does not say what {variable} is");
    }
    let (asked, metrics) = (asked(section()), metrics());
    assert!(asked.len() > 1, "{asked:?}");
    let missing: Vec<_> = asked.iter().filter(|asked| !metrics.contains(**asked)).collect();
    assert!(missing.is_empty(), "docs/web.md tells of {missing:?}");
}

#[test]
fn the_alarms_are_yaml_whose_rules_each_have_what_prometheus_wants() {
    let file = yaml(ALARMS);
    let rules = file["groups"][0]["rules"].as_vec().expect("rules");
    assert!(rules.len() > 5);
    for rule in rules {
        for part in ["alert", "expr"] {
            assert!(rule[part].as_str().is_some_and(|text| !text.is_empty()), "{rule:?}");
        }
        assert!(rule["annotations"]["summary"].as_str().is_some(), "{rule:?}");
    }
}
