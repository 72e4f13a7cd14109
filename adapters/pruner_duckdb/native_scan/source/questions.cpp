#include "questions.hpp"

#include "json_serializer.hpp"
#include "ranges.hpp"

#include "duckdb/main/client_context.hpp"
#include "duckdb/planner/expression/bound_conjunction_expression.hpp"
#include "duckdb/planner/expression/bound_constant_expression.hpp"
#include "duckdb/planner/expression/bound_function_expression.hpp"
#include "duckdb/planner/expression/bound_operator_expression.hpp"
#include "duckdb/planner/expression/bound_reference_expression.hpp"
#include "duckdb/planner/filter/expression_filter.hpp"
#include "duckdb/planner/filter/table_filter_functions.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

using namespace duckdb;
using namespace duckdb_yyjson; // NOLINT

namespace pruner {

namespace {

//! A JSON object that is built value by value.
class Object {
public:
	Object() : doc(yyjson_mut_doc_new(nullptr)), root(yyjson_mut_obj(doc)) {
		yyjson_mut_doc_set_root(doc, root);
	}
	~Object() {
		yyjson_mut_doc_free(doc);
	}
	Object(const Object &) = delete;

	void Add(const char *key, const std::string &value) {
		yyjson_mut_obj_add_val(doc, root, key, Text(value));
	}
	void Add(const char *key, yyjson_mut_val *value) {
		yyjson_mut_obj_add_val(doc, root, key, value);
	}
	yyjson_mut_val *Text(const std::string &value) {
		return yyjson_mut_strncpy(doc, value.data(), value.size());
	}
	std::string Written() {
		size_t length = 0;
		auto data = yyjson_mut_val_write_opts(root, YYJSON_WRITE_ALLOW_INF_AND_NAN, nullptr, &length, nullptr);
		if (!data) {
			throw SerializationException("a filter cannot be written as JSON");
		}
		std::string text(data, length);
		free(data);
		return text;
	}

	yyjson_mut_doc *doc;
	yyjson_mut_val *root;
};

//! Settings on which the meaning of an expression depends.
const char *const kSettings[] = {"TimeZone",         "default_collation",    "Calendar", "ieee_floating_point_ops",
                                 "integer_division", "old_implicit_casting"};

void AddSession(Object &object, ClientContext &context) {
	auto settings = yyjson_mut_obj(object.doc);
	for (auto name : kSettings) {
		Value value;
		if (context.TryGetCurrentSetting(Identifier(name), value)) {
			yyjson_mut_obj_add_val(object.doc, settings, name,
			                       value.IsNull() ? yyjson_mut_null(object.doc) : object.Text(value.ToString()));
		}
	}
	object.Add("settings", settings);
}

Question AsOfNow(Object &object, ClientContext &context) {
	Question question;
	question.text = object.Written();
	question.now = MetaTransaction::Get(context).start_timestamp.value;
	return question;
}

//! An expression in the form in which `json_serialize_plan` has it; its text where it has none.
yyjson_mut_val *Written(Object &object, Expression &expression) {
	try {
		return JsonSerializer::Serialize(expression, object.doc, false, false, false);
	} catch (std::exception &) {
		return object.Text(expression.ToString());
	}
}

//! Names of the scanned columns in their order; null for what is no plain column (row ids, fields in place of structs).
yyjson_mut_val *ColumnNames(Object &object, const vector<ColumnIndex> &columns, const vector<Identifier> &names) {
	auto list = yyjson_mut_arr(object.doc);
	for (auto &column : columns) {
		auto plain = !column.IsVirtualColumn() && !column.IsPushdownExtract();
		auto index = column.GetPrimaryIndex();
		yyjson_mut_arr_append(list, plain && index < names.size() ? object.Text(names[index].GetIdentifierName())
		                                                          : yyjson_mut_null(object.doc));
	}
	return list;
}

//! Takes apart what stands in a filter of a scan: hints and what other operators learned are opened.
class Parts {
public:
	Parts(Object &object, const Expression &column, const std::string &name, size_t most_ranges)
	    : object(object), column(column), name(name), most_ranges(most_ranges), list(yyjson_mut_arr(object.doc)) {
	}

	void Take(Expression &expression) {
		if (expression.GetExpressionType() == ExpressionType::CONJUNCTION_AND) {
			for (auto &child : expression.Cast<BoundConjunctionExpression>().GetChildrenMutable()) {
				Take(*child);
			}
			return;
		}
		if (expression.GetExpressionClass() == ExpressionClass::BOUND_FUNCTION && TakeHint(expression)) {
			return;
		}
		Append(expression);
	}

	Object &object;
	const Expression &column;
	const std::string name;
	const size_t most_ranges;
	yyjson_mut_val *list;
	bool hints = false;

private:
	bool TakeHint(Expression &expression) {
		auto child = ExpressionFilter::GetOptionalFilterChild(expression);
		if (child) {
			auto copy = child->Copy();
			ExpressionFilter::ReplaceExpressionRecursive(copy, column);
			auto before = hints;
			auto size = yyjson_mut_arr_size(list);
			Take(*copy);
			hints = before || yyjson_mut_arr_size(list) > size;
			return true;
		}
		auto &function = expression.Cast<BoundFunctionExpression>();
		if (!TableFilterFunctions::IsTableFilterFunction(function.Function())) {
			return false;
		}
		auto &name = function.Function().GetName();
		if (name == DynamicFilterScalarFun::NAME && function.BindInfo()) {
			auto &data = function.BindInfo()->Cast<DynamicFilterFunctionData>().filter_data;
			if (data && data->initialized) {
				Append(*data->ToExpression(column));
				hints = true;
			}
		}
		if (name == PrefixRangeScalarFun::NAME && function.BindInfo()) {
			auto &data = function.BindInfo()->Cast<PrefixRangeFunctionData>();
			if (data.filter && data.filter->IsInitialized() && data.filters_null_values) {
				AppendRanges(*function.GetChildrenMutable()[0], data);
			}
		}
		return true; // bloom filters and the like say nothing of a whole file
	}

	void Append(Expression &expression) {
		if (expression.GetExpressionType() == ExpressionType::COMPARE_IN && AppendKeys(expression)) {
			return;
		}
		yyjson_mut_obj_add_val(object.doc, Part(), "expression", Written(object, expression));
	}

	//! A list of constants without the type of each.
	bool AppendKeys(Expression &expression) {
		auto &children = expression.Cast<BoundOperatorExpression>().GetChildrenMutable();
		auto keys = yyjson_mut_arr(object.doc);
		for (size_t i = 1; i < children.size(); i++) {
			auto constant = dynamic_cast<BoundConstantExpression *>(children[i].get());
			if (!constant || constant->GetValue().IsNull()) {
				return false;
			}
			AppendValue(keys, constant->GetValue());
		}
		AddKeys("keys", keys, *children[0], children[1]->GetReturnType());
		return true;
	}

	void AppendRanges(Expression &input, const PrefixRangeFunctionData &data) {
		auto ends = yyjson_mut_arr(object.doc);
		for (auto &range : RangesOf(*data.filter, data.key_type, most_ranges)) {
			AppendValue(ends, Value::Numeric(data.key_type, range.first));
			AppendValue(ends, Value::Numeric(data.key_type, range.second));
		}
		if (yyjson_mut_arr_size(ends) > 0) {
			AddKeys("ends", ends, input, data.key_type);
			hints = true;
		}
	}

	void AppendValue(yyjson_mut_val *list, const Value &value) {
		auto written = JsonSerializer::Serialize(value, object.doc, false, false, false);
		yyjson_mut_arr_append(list, yyjson_mut_val_mut_copy(object.doc, yyjson_mut_obj_get(written, "value")));
	}

	void AddKeys(const char *kind, yyjson_mut_val *values, Expression &input, const LogicalType &type) {
		auto part = Part();
		yyjson_mut_obj_add_val(object.doc, part, "input", Written(object, input));
		yyjson_mut_obj_add_val(object.doc, part, "type",
		                       JsonSerializer::Serialize(type, object.doc, false, false, false));
		yyjson_mut_obj_add_val(object.doc, part, kind, values);
	}

	yyjson_mut_val *Part() {
		auto part = yyjson_mut_obj(object.doc);
		yyjson_mut_obj_add_val(object.doc, part, "column", object.Text(name));
		yyjson_mut_arr_append(list, part);
		return part;
	}
};

} // namespace

std::string Message(std::initializer_list<std::pair<const char *, std::string>> fields) {
	Object object;
	for (auto &field : fields) {
		object.Add(field.first, field.second);
	}
	return object.Written();
}

std::string Question::Whole() const {
	return text.substr(0, text.size() - 1) + ",\"now\":" + std::to_string(now) + "}";
}

Question StaticQuestion(ClientContext &context, const Reference &reference, const std::string &plan,
                        const MultiFilePushdownInfo &info, const vector<unique_ptr<Expression>> &filters) {
	Object object;
	object.Add("kind", "static");
	object.Add("database", reference.database);
	object.Add("bound", reference.bound);
	object.Add("plan", plan);
	AddSession(object, context);
	object.Add("columns", ColumnNames(object, info.column_indexes, info.column_names));
	auto list = yyjson_mut_arr(object.doc);
	for (auto &filter : filters) {
		yyjson_mut_arr_append(list, Written(object, *filter));
	}
	object.Add("filters", list);
	return AsOfNow(object, context);
}

Question DynamicQuestion(MultiFileDynamicPushdownInfo &info, const Reference &reference, const std::string &plan,
                         bool from_joins) {
	Object object;
	auto parts = yyjson_mut_arr(object.doc);
	auto learned = from_joins;
	for (auto &entry : info.filters) {
		auto &index = info.column_indexes[entry.GetIndex()];
		auto &filter = ExpressionFilter::GetExpressionFilter(entry.Filter(), "pruner");
		// Filters over several columns were there before.
		if (index.IsVirtualColumn() || index.IsPushdownExtract() || !filter.column_indexes.empty()) {
			continue;
		}
		auto primary = index.GetPrimaryIndex();
		BoundReferenceExpression column(info.column_types[primary], idx_t(0));
		auto expression = filter.ToExpression(column);
		auto most_ranges = MaxValue<size_t>(4 * reference.files->size(), 16);
		Parts found(object, column, info.column_names[primary].GetIdentifierName(), most_ranges);
		found.Take(*expression);
		learned = learned || found.hints;
		size_t place, count;
		yyjson_mut_val *part;
		yyjson_mut_arr_foreach(found.list, place, count, part) {
			yyjson_mut_arr_append(parts, yyjson_mut_val_mut_copy(object.doc, part));
		}
	}
	if (!learned || yyjson_mut_arr_size(parts) == 0) {
		return Question();
	}
	object.Add("kind", "dynamic");
	object.Add("database", reference.database);
	object.Add("bound", reference.bound);
	object.Add("plan", plan);
	AddSession(object, info.context);
	object.Add("filters", parts);
	return AsOfNow(object, info.context);
}

bool ShowsFileNumbers(const vector<ColumnIndex> &columns) {
	for (auto &column : columns) {
		auto index = column.GetPrimaryIndex();
		if (index == MultiFileReader::COLUMN_IDENTIFIER_FILE_INDEX || index == COLUMN_IDENTIFIER_ROW_ID) {
			return true;
		}
	}
	return false;
}

} // namespace pruner
