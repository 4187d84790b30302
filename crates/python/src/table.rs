//! Rows of a document as an Arrow table, which others take without a copy: the Arrow PyCapsule interface.

use crate::document::Node;
use crate::failure::{Error, guarded};
use arrow_array::ffi::FFI_ArrowArray;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{
    Array, ArrayRef, BooleanArray, Float64Array, Int64Array, NullArray, PrimitiveArray, RecordBatch,
    RecordBatchIterator, StringArray, StructArray, UInt64Array,
};
use arrow_schema::ffi::FFI_ArrowSchema;
use arrow_schema::{ArrowError, DataType, Field, Schema};
use pyo3::exceptions::{PyIndexError, PyKeyError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyIterator, PyList, PyTuple};
use std::collections::HashMap;
use std::sync::Arc;

/// Rows that are shown.
const SHOWN: usize = 20;
/// Letters of a line that is shown.
const WIDTH: usize = 120;

/// A table of results: columns with names, without a copy for pandas, polars, DuckDB and pyarrow.
///
/// It has the methods of the Arrow PyCapsule interface, which these libraries look for.
///
/// >>> import fairspan
/// >>> table = fairspan.ring.rias({"nodes": 5, "flows": [{"from": 1, "to": 3}, {"from": 2, "to": 3}]})
/// >>> table.columns
/// ['flow', 'from', 'to', 'demand', 'rate', 'bottleneck']
/// >>> table["rate"]
/// [0.5, 0.5]
/// >>> len(table), table.rows()[0]["to"]
/// (2, 3)
#[pyclass(frozen, mapping, module = "fairspan")]
pub(crate) struct Table {
    batch: RecordBatch,
}

/// A table that grows by rows; columns come in the order in which they are first seen.
#[derive(Default)]
pub(crate) struct Rows {
    names: Vec<String>,
    places: HashMap<String, usize>,
    columns: Vec<Vec<Node>>,
    count: usize,
}

impl Rows {
    /// No rows yet, and these columns to begin with.
    pub(crate) fn with(names: &[String]) -> Rows {
        let places = names.iter().cloned().enumerate().map(|(place, name)| (name, place)).collect();
        Rows { names: names.to_vec(), places, columns: vec![Vec::new(); names.len()], count: 0 }
    }

    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// One more row.
    pub(crate) fn add(&mut self, cells: Vec<(String, Node)>) {
        for (name, value) in cells {
            let place = *self.places.entry(name).or_insert_with_key(|name| {
                self.names.push(name.clone());
                self.columns.push(Vec::new());
                self.columns.len() - 1
            });
            let column = &mut self.columns[place];
            column.resize(self.count, Node::Null);
            column.push(value);
        }
        self.count += 1;
    }

    /// The whole table.
    pub(crate) fn finish(self) -> PyResult<Table> {
        let Rows { names, columns, count, .. } = self;
        // What is an object in some rows and nothing in others has the columns of the object, and none of its own.
        let nothing: Vec<bool> = names
            .iter()
            .zip(&columns)
            .map(|(name, column)| {
                let inside = names
                    .iter()
                    .any(|other| other.strip_prefix(name.as_str()).is_some_and(|rest| rest.starts_with('_')));
                inside && column.iter().all(|node| *node == Node::Null)
            })
            .collect();
        let arrays = columns.into_iter().map(|mut column| {
            column.resize(count, Node::Null);
            array(&column)
        });
        let named = names.into_iter().zip(arrays).zip(nothing).filter(|(_, nothing)| !nothing);
        let named = named.map(|((name, array), _)| (name, String::new(), array));
        Table::of(named.collect(), HashMap::new())
    }
}

/// A column of one type: that of its values, real numbers where there are whole ones beside them, and Arrow's null where there are none.
fn array(column: &[Node]) -> ArrayRef {
    let all = |is: fn(&Node) -> bool| column.iter().all(|node| *node == Node::Null || is(node));
    if all(|_| false) {
        return Arc::new(NullArray::new(column.len()));
    }
    if all(|node| matches!(node, Node::Bool(_))) {
        let bools = column.iter().map(|node| if let Node::Bool(value) = node { Some(*value) } else { None });
        return Arc::new(BooleanArray::from_iter(bools));
    }
    let whole = |node: &Node| if let Node::Whole(value) = node { Some(*value) } else { None };
    if all(|node| matches!(node, Node::Whole(value) if u64::try_from(*value).is_ok())) {
        let values = column.iter().map(|node| whole(node).and_then(|value| u64::try_from(value).ok()));
        return Arc::new(UInt64Array::from_iter(values));
    }
    if all(|node| matches!(node, Node::Whole(value) if i64::try_from(*value).is_ok())) {
        let values = column.iter().map(|node| whole(node).and_then(|value| i64::try_from(value).ok()));
        return Arc::new(Int64Array::from_iter(values));
    }
    if all(|node| matches!(node, Node::Whole(_) | Node::Real(_))) {
        return Arc::new(Float64Array::from_iter(column.iter().map(|node| match node {
            Node::Real(value) => Some(*value),
            Node::Whole(value) => Some(*value as f64),
            _ => None,
        })));
    }
    Arc::new(StringArray::from_iter(column.iter().map(|node| match node {
        Node::Null => None,
        Node::Text(text) => Some(text.clone()),
        Node::Bool(value) => Some(value.to_string()),
        Node::Whole(value) => Some(value.to_string()),
        Node::Real(value) => Some(value.to_string()),
        Node::List(_) | Node::Object(_) => None,
    })))
}

fn failed(error: &ArrowError) -> PyErr {
    Error::new_err(error.to_string())
}

impl Table {
    /// Of columns with their names and units; `about` goes into the schema's metadata.
    pub(crate) fn of(columns: Vec<(String, String, ArrayRef)>, about: HashMap<String, String>) -> PyResult<Table> {
        let field = |(name, unit, array): &(String, String, ArrayRef)| {
            let field = Field::new(name, array.data_type().clone(), true);
            if unit.is_empty() { field } else { field.with_metadata(HashMap::from([("unit".into(), unit.clone())])) }
        };
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let schema = Arc::new(Schema::new_with_metadata(fields, about));
        let rows = columns.first().map_or(0, |(_, _, array)| array.len());
        let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(rows));
        let arrays = columns.into_iter().map(|(_, _, array)| array).collect();
        let batch = RecordBatch::try_new_with_options(schema, arrays, &options).map_err(|error| failed(&error))?;
        Ok(Table { batch })
    }

    fn place(&self, name: &str) -> PyResult<usize> {
        self.batch.schema_ref().index_of(name).map_err(|_| {
            let known = self.columns().join(", ");
            PyKeyError::new_err(format!("no column `{name}`; there are {known}"))
        })
    }

    fn cell<'py>(&self, py: Python<'py>, column: &dyn Array, row: usize) -> PyResult<Bound<'py, PyAny>> {
        fn number<T: arrow_array::ArrowPrimitiveType>(column: &dyn Array, row: usize) -> Option<T::Native> {
            column.as_any().downcast_ref::<PrimitiveArray<T>>().map(|array| array.value(row))
        }
        if column.is_null(row) || *column.data_type() == DataType::Null {
            return Ok(py.None().into_bound(py));
        }
        Ok(match column.data_type() {
            DataType::UInt64 => number::<UInt64Type>(column, row).into_pyobject(py)?,
            DataType::Int64 => number::<Int64Type>(column, row).into_pyobject(py)?,
            DataType::Float64 => number::<Float64Type>(column, row).into_pyobject(py)?,
            DataType::Boolean => {
                let value = column.as_any().downcast_ref::<BooleanArray>().map(|array| array.value(row));
                value.into_pyobject(py)?
            }
            _ => {
                let text = column.as_any().downcast_ref::<StringArray>().map(|array| array.value(row));
                text.into_pyobject(py)?
            }
        })
    }

    /// The first rows as texts, the names of the columns first.
    fn shown(&self, py: Python<'_>) -> PyResult<Vec<Vec<String>>> {
        let mut lines = vec![self.columns()];
        for row in 0..self.batch.num_rows().min(SHOWN) {
            let cells = self.batch.columns().iter().map(|column| {
                let cell = self.cell(py, column, row)?;
                if cell.is_none() { Ok(String::new()) } else { Ok(cell.str()?.to_string()) }
            });
            lines.push(cells.collect::<PyResult<_>>()?);
        }
        Ok(lines)
    }

    fn more(&self) -> Option<String> {
        let rows = self.batch.num_rows();
        (rows > SHOWN).then(|| format!("… {} more rows", rows - SHOWN))
    }
}

#[pymethods]
impl Table {
    /// The names of the columns.
    #[getter]
    fn columns(&self) -> Vec<String> {
        self.batch.schema_ref().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// The units of the columns, by name, where they are not those of the document.
    #[getter]
    fn units(&self) -> HashMap<String, String> {
        let fields = self.batch.schema_ref().fields().iter();
        fields.filter_map(|field| Some((field.name().clone(), field.metadata().get("unit")?.clone()))).collect()
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    fn __contains__(&self, name: &str) -> bool {
        self.batch.schema_ref().index_of(name).is_ok()
    }

    fn __iter__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyIterator>> {
        PyList::new(py, self.columns())?.try_iter()
    }

    /// A column's values as a list.
    fn __getitem__<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyList>> {
        let column = self.batch.column(self.place(name)?);
        let values = (0..column.len()).map(|row| self.cell(py, column, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, values)
    }

    /// The table as a dictionary of lists.
    fn to_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let columns = PyDict::new(py);
        for name in self.columns() {
            columns.set_item(&name, self.__getitem__(py, &name)?)?;
        }
        Ok(columns)
    }

    /// The rows as a list of dictionaries.
    fn rows<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let rows = (0..self.batch.num_rows()).map(|row| self.row(py, row)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, rows)
    }

    /// One row as a dictionary.
    fn row<'py>(&self, py: Python<'py>, number: usize) -> PyResult<Bound<'py, PyDict>> {
        if number >= self.batch.num_rows() {
            return Err(PyIndexError::new_err(format!("row {number}; there are {}", self.batch.num_rows())));
        }
        let row = PyDict::new(py);
        for (name, column) in self.columns().iter().zip(self.batch.columns()) {
            row.set_item(name, self.cell(py, column, number)?)?;
        }
        Ok(row)
    }

    /// The schema, for libraries that understand Arrow.
    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema_ref().as_ref()).map_err(|error| failed(&error))?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    /// The table as one array of structures. `requested_schema` is a wish that the interface allows to be left open.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        let _ = requested_schema;
        let array = guarded(|| FFI_ArrowArray::new(&StructArray::from(self.batch.clone()).to_data()))?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [self.__arrow_c_schema__(py)?, array])
    }

    /// The table as a stream of one batch. `requested_schema` is a wish that the interface allows to be left open.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(batches)), c"arrow_array_stream")
    }

    fn __repr__(&self, py: Python<'_>) -> PyResult<String> {
        let lines = self.shown(py)?;
        let width = |place: usize| lines.iter().map(|line| line[place].chars().count()).max().unwrap_or(0);
        let mut widths: Vec<usize> = (0..self.batch.num_columns()).map(width).collect();
        let mut all = 0;
        let fits = widths.iter().take_while(|width| {
            all += **width + 2;
            all <= WIDTH
        });
        widths.truncate(fits.count().max(1));
        let hidden = self.columns().split_off(widths.len());
        let hidden = (!hidden.is_empty()).then(|| format!("… {} more columns: {}", hidden.len(), hidden.join(", ")));
        let line = |cells: &Vec<String>| {
            let cells = cells.iter().zip(&widths).map(|(cell, &width)| format!("{cell:>width$}"));
            cells.collect::<Vec<_>>().join("  ")
        };
        Ok(lines.iter().map(line).chain(self.more()).chain(hidden).collect::<Vec<_>>().join("\n"))
    }

    fn _repr_html_(&self, py: Python<'_>) -> PyResult<String> {
        let escape = |text: &String| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
        let lines = self.shown(py)?;
        let row = |(number, cells): (usize, &Vec<String>)| {
            let tag = if number == 0 { "th" } else { "td" };
            let cells = cells.iter().map(|cell| format!("<{tag}>{}</{tag}>", escape(cell))).collect::<String>();
            format!("<tr>{cells}</tr>")
        };
        let rows = lines.iter().enumerate().map(row).collect::<String>();
        let more = self.more().map(|more| format!("<p>{more}</p>")).unwrap_or_default();
        Ok(format!("<table>{rows}</table>{more}"))
    }
}
