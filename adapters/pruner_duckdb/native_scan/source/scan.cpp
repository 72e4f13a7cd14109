//! `pruner_scan(name)`: DuckDB's own Parquet scan over the files of a table, which asks while it plans.

#include "channel.hpp"
#include "memory.hpp"
#include "questions.hpp"
#include "versions.hpp"

#include "duckdb/catalog/catalog_entry/table_function_catalog_entry.hpp"
#include "duckdb/common/multi_file/multi_file_states.hpp"
#include "duckdb/common/type_visitor.hpp"
#include "duckdb/execution/operator/scan/physical_table_scan.hpp"
#include "duckdb/function/scalar_function.hpp"
#include "duckdb/main/client_config.hpp"
#include "duckdb/main/client_context.hpp"
#include "duckdb/main/client_context_state.hpp"
#include "duckdb/main/config.hpp"
#include "duckdb/main/extension/extension_loader.hpp"
#include "duckdb/main/settings.hpp"
#include "duckdb/optimizer/optimizer_extension.hpp"
#include "duckdb/function/partition_stats.hpp"
#include "duckdb/parser/expression/constant_expression.hpp"
#include "duckdb/parser/parser.hpp"
#include "duckdb/parser/statement/select_statement.hpp"
#include "duckdb/parser/tableref/subqueryref.hpp"
#include "duckdb/planner/expression/bound_columnref_expression.hpp"
#include "duckdb/planner/expression_iterator.hpp"
#include "duckdb/planner/operator/logical_get.hpp"
#include "duckdb/planner/operator/logical_projection.hpp"
#include "duckdb/planner/table_filter_set.hpp"
#include "duckdb/transaction/meta_transaction.hpp"

#include <atomic>
#include <map>
#include <mutex>

using namespace duckdb;

namespace pruner {

namespace {

constexpr double kListing = 600;
constexpr size_t kKeptLists = 64;
//! Files of all lists together, but for the newest one, which is kept whatever it holds: some 150 bytes each.
constexpr size_t kKeptFiles = 1 << 18;

//! What the scan of Parquet files does in DuckDB itself.
struct Original {
	table_function_bind_t bind;
	table_function_init_global_t init_global;
	table_statistics_extended_t statistics;
	table_function_cardinality_t cardinality;
	table_function_get_partition_stats_t partition_stats;
};
Original original; // the same for every database of the process

//! While a statement runs that reads one of our tables, joins hand over lists of more keys than they do otherwise: the
//! more files there are to be left out, the more. A limit of the user's own stays. It is raised when a statement is
//! planned, and not when it is bound: a relation is bound when it is made, and nothing ends then.
class KeyLimit : public ClientContextState {
public:
	static void Raise(ClientContext &context, idx_t files) {
		auto state = context.registered_state->GetOrCreate<KeyLimit>("pruner");
		state->limit = MaxValue(state->limit, MinValue<idx_t>(MaxValue<idx_t>(4 * files, 128), 1021));
		auto &own = Settings(context);
		if (state->raised || (!own.IsSet(kSetting) && !DBConfig::GetConfig(context).user_settings.IsSet(kSetting))) {
			own.SetUserSetting(kSetting, Value::UBIGINT(state->limit));
			state->raised = true;
		}
	}
	RebindQueryInfo OnRebindPreparedStatement(ClientContext &context, BindPreparedStatementCallbackInfo &,
	                                          RebindQueryInfo) override {
		Raise(context, 0); // nothing may be bound anew
		return RebindQueryInfo::DO_NOT_REBIND;
	}
	void QueryEnd(ClientContext &context) override {
		Value now;
		auto &own = Settings(context);
		if (raised && own.IsSet(kSetting) &&
		    own.TryGetSetting(DBConfig::GetConfig(context).user_settings, kSetting, now) &&
		    now == Value::UBIGINT(limit)) {
			own.ClearSetting(kSetting);
		}
		raised = false;
	}

private:
	static constexpr auto kSetting = DynamicOrFilterThresholdSetting::SettingIndex;
	static LocalUserSettings &Settings(ClientContext &context) {
		return ClientConfig::GetConfig(context).user_settings;
	}
	idx_t limit = 0;
	bool raised = false;
};

//! Joins learned something about the scan that this thread is starting.
thread_local bool joins_learned = false;

//! Beside the function, while a call is bound: which files the reader is to list.
struct BoundInfo : public TableFunctionInfo {
	explicit BoundInfo(std::string database, shared_ptr<const Reference> reference = nullptr)
	    : database(std::move(database)), reference(std::move(reference)) {
	}
	~BoundInfo() override {
		if (!reference) {
			Forget(database);
			Tell(Message({{"kind", "gone"}, {"database", database}})); // the catalog is gone, and the function with it
		}
	}
	const std::string database;
	const shared_ptr<const Reference> reference;
};

Answer AskOf(ClientContext &context, const std::string &question, double seconds) {
	return Ask(question, seconds, [&] { return context.IsInterrupted(); });
}

//! Without files there is nothing to read. An interrupted statement ends as DuckDB's own do.
void RequireGiven(ClientContext &context, const Answer &answer, const std::string &message) {
	if (answer.given) {
		return;
	}
	if (context.IsInterrupted()) {
		throw InterruptException();
	}
	throw IOException(message);
}

//! Some files of a snapshot, in its order.
class PrunedFileList : public MultiFileList {
public:
	PrunedFileList(shared_ptr<const Reference> reference, shared_ptr<const vector<uint32_t>> kept, std::string plan,
	               std::string reason)
	    : reference(std::move(reference)), kept(std::move(kept)), plan(std::move(plan)), reason(std::move(reason)) {
	}

	unique_ptr<MultiFileList> ComplexFilterPushdown(ClientContext &context, const MultiFileOptions &options,
	                                                MultiFilePushdownInfo &info,
	                                                vector<unique_ptr<Expression>> &filters) const override {
		if (filters.empty()) {
			return nullptr;
		}
		auto pruned = ByFilters(context, info, filters);
		auto before = reference->files->size();
		auto by_paths = static_cast<PrunedFileList &>(*pruned).ByPaths(context, options, info, filters);
		auto result = by_paths ? std::move(by_paths) : std::move(pruned);
		auto after = result->GetTotalFileCount();
		if (after < before) {
			info.extra_info.total_files = before;
			info.extra_info.filtered_files = after;
		}
		return result;
	}

	//! What is left by filters over the columns of the scan; all of it, with the reason, where nobody can tell.
	unique_ptr<MultiFileList> ByFilters(ClientContext &context, MultiFilePushdownInfo &info,
	                                    vector<unique_ptr<Expression>> &filters) const {
		if (ShowsFileNumbers(info.column_indexes)) {
			return WithReason("the statement reads file_index or rowid, which count the files that are read");
		}
		try {
			return Asked(context, StaticQuestion(context, *reference, plan, info, filters));
		} catch (std::exception &error) {
			return WithReason(error.what());
		}
	}

	unique_ptr<MultiFileList> DynamicFilterPushdown(MultiFileDynamicPushdownInfo &info) const override {
		if (ShowsFileNumbers(info.column_indexes)) {
			return nullptr;
		}
		try {
			auto question = DynamicQuestion(info, *reference, plan, joins_learned);
			return question.text.empty() ? nullptr : Asked(info.context, question);
		} catch (std::exception &error) {
			return WithReason(error.what());
		}
	}

	FileExpandResult GetExpandResult() const override {
		auto count = GetTotalFileCount();
		return count > 1    ? FileExpandResult::MULTIPLE_FILES
		       : count == 1 ? FileExpandResult::SINGLE_FILE
		                    : FileExpandResult::NO_FILES;
	}
	idx_t GetTotalFileCount() const override {
		return kept ? kept->size() : reference->files->size();
	}
	unique_ptr<MultiFileList> Copy() const override {
		return make_uniq<PrunedFileList>(reference, kept, plan, reason);
	}
	bool Narrowed() const {
		return kept && kept->size() < reference->files->size();
	}

	const shared_ptr<const Reference> reference;
	//! Ordinals, ascending; null for all.
	const shared_ptr<const vector<uint32_t>> kept;
	//! Number of the plan that left these files; empty where nobody was asked.
	const std::string plan;
	//! Why the last question was not answered; empty where it was.
	const std::string reason;

protected:
	OpenFileInfo GetFile(idx_t i) const override {
		if (i >= GetTotalFileCount()) {
			return OpenFileInfo("");
		}
		return (*reference->files)[Ordinal(i)];
	}

private:
	idx_t Ordinal(idx_t i) const {
		return kept ? (*kept)[i] : i;
	}

	unique_ptr<MultiFileList> WithReason(const std::string &why) const {
		return make_uniq<PrunedFileList>(reference, kept, plan, why);
	}

	//! The files of these that are left by the answer to a question; all of them where there is none.
	unique_ptr<MultiFileList> Asked(ClientContext &context, const Question &question) const {
		Answer answer;
		if (!RecallAnswer(question.text, answer)) {
			answer = AskOf(context, question.Whole(), Patience());
			if (!answer.given || answer.fields.size() < 3) {
				return WithReason(answer.reason.empty() ? "the answer was empty" : answer.reason);
			}
			RememberAnswer(question.text, answer);
		}
		// Fields: number of the plan, "all" or ordinals as 32-bit numbers in hexadecimal, and how long that serves.
		auto &ordinals = answer.fields[1];
		if (ordinals == "all") {
			return make_uniq<PrunedFileList>(reference, kept, answer.fields[0], "");
		}
		vector<bool> wanted(reference->files->size(), false);
		for (size_t i = 0; i < ordinals.size(); i += 8) {
			auto ordinal = std::stoul(ordinals.substr(i, 8), nullptr, 16);
			if (ordinal >= wanted.size()) {
				return WithReason("the answer names a file that is not there");
			}
			wanted[ordinal] = true;
		}
		auto left = make_shared_ptr<vector<uint32_t>>();
		for (idx_t i = 0; i < GetTotalFileCount(); i++) {
			if (wanted[Ordinal(i)]) {
				left->push_back(NumericCast<uint32_t>(Ordinal(i)));
			}
		}
		return make_uniq<PrunedFileList>(reference, std::move(left), answer.fields[0], "");
	}

	//! What DuckDB itself leaves out by the names of folders and files, as it does of any list.
	unique_ptr<MultiFileList> ByPaths(ClientContext &context, const MultiFileOptions &options,
	                                  MultiFilePushdownInfo &info, vector<unique_ptr<Expression>> &filters) const {
		auto left = MultiFileList::ComplexFilterPushdown(context, options, info, filters);
		if (!left) {
			return nullptr;
		}
		auto files = left->GetAllFiles();
		auto ordinals = make_shared_ptr<vector<uint32_t>>();
		idx_t next = 0;
		for (idx_t i = 0; i < GetTotalFileCount() && next < files.size(); i++) {
			if (GetFile(i).path == files[next].path) {
				ordinals->push_back(NumericCast<uint32_t>(Ordinal(i)));
				next++;
			}
		}
		if (next < files.size()) {
			throw InternalException("pruner: DuckDB's list of files is in another order");
		}
		return make_uniq<PrunedFileList>(reference, std::move(ordinals), plan, reason);
	}
};

class Reader : public MultiFileReader {
public:
	explicit Reader(shared_ptr<const Reference> reference) : reference(std::move(reference)) {
	}

	shared_ptr<MultiFileList> CreateFileList(ClientContext &context, vector<OpenFileInfo> files,
	                                         const FileGlobInput &glob_input) override {
		return make_shared_ptr<PrunedFileList>(reference, nullptr, "", "");
	}
	bool Bind(MultiFileOptions &, MultiFileList &, vector<LogicalType> &types, vector<Identifier> &names,
	          MultiFileReaderBindData &bind_data) override {
		for (auto &column : reference->columns) {
			types.push_back(column.type);
			names.push_back(column.name);
		}
		bind_data.schema = reference->columns;
		bind_data.mapping = MultiFileColumnMappingMode::BY_NAME;
		return !names.empty();
	}
	unique_ptr<MultiFileReader> Copy() const override {
		auto result = make_uniq<Reader>(reference);
		result->function_name = function_name;
		return std::move(result);
	}
	shared_ptr<BaseFileReader> CreateReader(ClientContext &context, GlobalTableFunctionState &state,
	                                        const OpenFileInfo &file, idx_t index,
	                                        const MultiFileBindData &bind_data) override {
		try {
			return MultiFileReader::CreateReader(context, state, file, index, bind_data);
		} catch (IOException &) {
			if (FileSystem::GetFileSystem(context).FileExists(file.path)) {
				throw;
			}
		}
		throw IOException("pruner: table %s: %s was removed while the statement ran: run it again", reference->table,
		                  file.path);
	}
	static unique_ptr<MultiFileReader> Create(const BoundTableFunction &function) {
		return make_uniq<Reader>(function.function_info->Cast<BoundInfo>().reference);
	}

private:
	const shared_ptr<const Reference> reference;
};

//! Lists of files that were handed over before, newest last.
shared_ptr<const FileList> FilesOf(ClientContext &context, const std::string &database, const std::string &list) {
	using Lists = std::vector<std::pair<std::string, shared_ptr<const FileList>>>;
	static auto &mutex = *new std::mutex();
	static auto &lists = *new Lists();
	{
		std::lock_guard<std::mutex> lock(mutex);
		for (auto &entry : lists) {
			if (entry.first == list) {
				return entry.second;
			}
		}
	}
	auto answer = AskOf(context, Message({{"kind", "files"}, {"database", database}, {"list", list}}), kListing);
	RequireGiven(context, answer, "pruner: " + answer.reason);
	auto files = make_shared_ptr<FileList>();
	for (auto &path : answer.fields) {
		files->emplace_back(path);
	}
	std::lock_guard<std::mutex> lock(mutex);
	lists.emplace_back(list, files);
	size_t held = 0;
	for (auto &entry : lists) {
		held += entry.second->size();
	}
	while (lists.size() > 1 && (lists.size() > kKeptLists || held > kKeptFiles)) {
		held -= lists.front().second->size();
		lists.erase(lists.begin());
	}
	return std::move(files);
}

//! What a table is bound to: a list of files, or for a reason a query in the place of a table that no scan serves.
struct Bound {
	shared_ptr<const Reference> reference;
	std::string reason;
	std::string query;
};

//! What the references of a connection's statement are bound to: all read one snapshot of a table (R8).
class BoundHere : public ClientContextState {
public:
	//! @param begins whether a reference is met for the first time: without a statement each has a bind of its own
	static shared_ptr<BoundHere> Of(ClientContext &context, bool begins) {
		auto state = context.registered_state->GetOrCreate<BoundHere>("pruner_bound");
		auto query = MetaTransaction::Get(context).GetActiveQuery();
		if (query != state->query || (begins && query == MAXIMUM_QUERY_ID)) {
			state->query = query;
			state->tables.clear();
		}
		return state;
	}
	std::map<std::pair<std::string, std::string>, Bound> tables;

private:
	transaction_t query = MAXIMUM_QUERY_ID;
};

void Begun(const Reference &reference, const std::string &plan, const std::string &reason) {
	Tell(Message({{"kind", "start"},
	              {"database", reference.database},
	              {"bound", reference.bound},
	              {"plan", plan},
	              {"reason", reason}}));
}

//! Takes the fields of an answer one after the other.
class Fields {
public:
	explicit Fields(const Answer &answer) : fields(answer.fields) {
	}
	const std::string &Next() {
		if (next >= fields.size()) {
			throw IOException("pruner: the answer is of another form");
		}
		return fields[next++];
	}
	idx_t NextNumber() {
		return std::stoull(Next());
	}
	bool More() const {
		return next < fields.size();
	}

private:
	const std::vector<std::string> &fields;
	size_t next = 0;
};

//! Fields of structs are found by their names, too, but not in maps: DuckDB's reader has no such columns.
MultiFileColumnDefinition ColumnOf(const Identifier &name, const LogicalType &type) {
	auto plain = TypeVisitor::Contains(type, LogicalTypeId::MAP) || TypeVisitor::Contains(type, LogicalTypeId::VARIANT);
	return plain ? MultiFileColumnDefinition(name, type) : MultiFileColumnDefinition::CreateNested(name, type);
}

Bound AskBind(ClientContext &context, const std::string &database, const std::string &table) {
	auto known = Recall(database, table);
	auto look = LookAt(known.watched);
	auto wants_versions = KeepsFooters(context);
	if (known.reference && !look.seen.empty() && look.seen == known.seen &&
	    (known.reference->has_versions || !wants_versions)) {
		return {known.reference, "", ""};
	}
	auto answer = AskOf(context, Message({{"kind", "bind"}, {"database", database}, {"table", table}}), kListing);
	RequireGiven(context, answer, "pruner: table " + table + " cannot be read: " + answer.reason);
	auto reference = make_shared_ptr<Reference>();
	reference->database = database;
	reference->table = table;
	// Fields: "files", number of the bind, of the list of files, rows of a file, "written" if conditions matter as they
	// are written and "nan" if statistics in files leave NaN out, how many names and types of columns in folders there are, how many places to watch, then these places,
	// these names and types, and those of all columns where the files do not show them. Otherwise "sql", number of the
	// bind, the reason and a query.
	Fields fields(answer);
	auto is_query = fields.Next() == "sql";
	reference->bound = fields.Next();
	if (is_query) {
		auto reason = fields.Next();
		return {std::move(reference), std::move(reason), fields.Next()};
	}
	reference->files = FilesOf(context, database, fields.Next());
	if (wants_versions) {
		reference->files = WithVersions(context, *reference->files);
		reference->has_versions = true;
	}
	reference->rows = fields.NextNumber();
	auto &form = fields.Next();
	reference->as_written = form.find("written") != std::string::npos;
	reference->can_have_nan = form.find("nan") != std::string::npos;
	auto folders = fields.NextNumber() / 2;
	std::vector<std::string> watched(fields.NextNumber());
	for (auto &place : watched) {
		place = fields.Next();
	}
	while (fields.More()) {
		Identifier name(fields.Next());
		auto &type = fields.Next();
		if (reference->folders.size() < folders) {
			reference->folders.emplace_back(name, Value(type));
			continue;
		}
		auto column = ColumnOf(name, TransformStringToLogicalType(type, context));
		column.identifier = Value(name.GetIdentifierName());
		column.default_expression = ConstantExpression::FromValue(Value(column.type));
		reference->columns.push_back(std::move(column));
	}
	// The look came before the question: what changed in between shows in the next one.
	auto same = look.settled && watched == known.watched;
	Remember(database, table, {std::move(watched), same ? look.seen : "", same ? reference : nullptr});
	return {std::move(reference), "", ""};
}

Bound BoundTo(ClientContext &context, const TableFunctionInfo &info, const std::string &table, bool begins) {
	auto &database = info.Cast<BoundInfo>().database;
	auto here = BoundHere::Of(context, begins);
	auto found = here->tables.find({database, table});
	if (found != here->tables.end()) {
		return found->second;
	}
	auto bound = AskBind(context, database, table);
	here->tables[{database, table}] = bound;
	return bound;
}

//! A query in the place of a table that no single scan serves.
unique_ptr<TableRef> Replace(ClientContext &context, TableFunctionBindInput &input) {
	auto bound = BoundTo(context, *input.info, input.inputs[0].GetValue<string>(), true);
	if (bound.query.empty()) {
		return nullptr;
	}
	Begun(*bound.reference, "", bound.reason);
	Parser parser(context);
	parser.ParseQuery(bound.query);
	if (parser.statements.size() != 1 || parser.statements[0]->type != StatementType::SELECT_STATEMENT) {
		throw IOException("pruner: the answer is no query");
	}
	return make_uniq<SubqueryRef>(unique_ptr_cast<SQLStatement, SelectStatement>(std::move(parser.statements[0])));
}

unique_ptr<FunctionData> Bind(ClientContext &context, TableFunctionBindInput &input, vector<LogicalType> &types,
                              vector<Identifier> &names) {
	auto bound = BoundTo(context, *input.info, input.inputs[0].GetValue<string>(), false);
	auto &reference = bound.reference;
	if (!bound.query.empty()) {
		throw IOException("pruner: table %s cannot be read in this kind of statement", input.inputs[0].ToString());
	}
	input.named_parameters["binary_as_string"] = Value::BOOLEAN(false);
	if (reference->can_have_nan) {
		input.named_parameters["can_have_nan"] = Value::BOOLEAN(true);
	}
	input.named_parameters["hive_partitioning"] = Value::BOOLEAN(!reference->folders.empty());
	if (!reference->folders.empty()) {
		input.named_parameters["hive_types_autocast"] = Value::BOOLEAN(false);
		input.named_parameters["hive_types"] = Value::STRUCT(reference->folders);
	}
	auto function = input.table_function;
	function.function_info = make_shared_ptr<BoundInfo>(reference->database, std::move(reference));
	TableFunctionBindInput inner(input.inputs, input.named_parameters, input.input_table_types,
	                             input.input_table_names, function.function_info.get(), input.binder, function,
	                             input.ref);
	return original.bind(context, inner, types, names);
}

unique_ptr<GlobalTableFunctionState> Start(ClientContext &context, TableFunctionInitInput &input) {
	joins_learned = false;
	if (input.op && input.op->type == PhysicalOperatorType::TABLE_SCAN) {
		auto &scan = input.op->Cast<PhysicalTableScan>();
		joins_learned = scan.dynamic_filters && scan.dynamic_filters->HasFilters();
	}
	auto state = original.init_global(context, input);
	auto list = dynamic_cast<PrunedFileList *>(&state->Cast<MultiFileGlobalState>().file_list);
	if (list) {
		Begun(*list->reference, list->plan, list->reason);
	}
	return state;
}

const PrunedFileList *ListOf(const FunctionData *data) {
	return data ? dynamic_cast<PrunedFileList *>(data->Cast<MultiFileBindData>().file_list.get()) : nullptr;
}

bool IsTold(const PrunedFileList *list) {
	return list && !list->reference->columns.empty();
}

//! Of a list that was cut down to one file DuckDB would take the statistics of the file, which say less than they seem
//! to (NaN is left out of them), and which it does not look at where there are several. Where columns are not those of
//! the files, it would take those at the same place.
unique_ptr<BaseStatistics> Statistics(ClientContext &context, TableFunctionGetStatisticsInput &input) {
	auto list = ListOf(input.bind_data.get());
	return list && (list->Narrowed() || IsTold(list)) ? nullptr : original.statistics(context, input);
}

vector<PartitionStatistics> PartitionStats(ClientContext &context, GetPartitionStatsInput &input) {
	return IsTold(ListOf(input.bind_data.get())) ? vector<PartitionStatistics>()
	                                             : original.partition_stats(context, input);
}

unique_ptr<NodeStatistics> Cardinality(ClientContext &context, const FunctionData *data) {
	auto list = ListOf(data);
	return IsTold(list) ? make_uniq<NodeStatistics>(list->reference->rows * list->GetTotalFileCount())
	                    : original.cardinality(context, data);
}

//! Put the expressions of a projection in the place of its columns; false where one is more than a column of it.
bool Below(LogicalProjection &projection, unique_ptr<Expression> &filter) {
	bool plain = true;
	ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
	    filter, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &) {
		    if (column.Binding().table_index != projection.table_index) {
			    plain = false;
			    return;
		    }
		    auto &below = projection.GetExpression(column.Binding());
		    plain = plain && below.GetExpressionClass() == ExpressionClass::BOUND_COLUMN_REF;
		    if (plain) {
			    column.BindingMutable() = below.Cast<BoundColumnRefExpression>().Binding();
		    }
	    });
	return plain;
}

bool IsOver(TableIndex table, unique_ptr<Expression> &filter) {
	bool over = true;
	ExpressionIterator::VisitExpressionMutable<BoundColumnRefExpression>(
	    filter, [&](BoundColumnRefExpression &column, unique_ptr<Expression> &) {
		    over = over && column.Binding().table_index == table;
	    });
	return over;
}

void Leave(vector<unique_ptr<Expression>> &filters, const std::function<bool(unique_ptr<Expression> &)> &stays) {
	vector<unique_ptr<Expression>> left;
	for (auto &filter : filters) {
		if (stays(filter)) {
			left.push_back(std::move(filter));
		}
	}
	filters = std::move(left);
}

//! Filters that stand above a scan say as much about it as those that were pushed to it: before DuckDB optimizes they
//! have the form in which they were written, and afterwards those are left that may fail, or stand above an UNNEST.
void AskAbove(ClientContext &context, LogicalOperator &plan, bool as_written) {
	for (auto &child : plan.children) {
		AskAbove(context, *child, as_written);
	}
	if (plan.type != LogicalOperatorType::LOGICAL_FILTER) {
		return;
	}
	vector<unique_ptr<Expression>> filters;
	for (auto &filter : plan.expressions) {
		filters.push_back(filter->Copy());
	}
	auto below = plan.children[0].get();
	for (;; below = below->children[0].get()) {
		if (below->type == LogicalOperatorType::LOGICAL_PROJECTION) {
			auto &projection = below->Cast<LogicalProjection>();
			Leave(filters, [&](unique_ptr<Expression> &filter) { return Below(projection, filter); });
		} else if (below->type != LogicalOperatorType::LOGICAL_FILTER &&
		           below->type != LogicalOperatorType::LOGICAL_UNNEST) {
			break;
		}
	}
	if (below->type != LogicalOperatorType::LOGICAL_GET) {
		return;
	}
	auto &get = below->Cast<LogicalGet>();
	Leave(filters, [&](unique_ptr<Expression> &filter) { return IsOver(get.table_index, filter); });
	if (filters.empty() || get.function.init_global != Start) {
		return;
	}
	auto &data = get.bind_data->Cast<MultiFileBindData>();
	auto list = dynamic_cast<PrunedFileList *>(data.file_list.get());
	if (list && (!as_written || list->reference->as_written)) {
		MultiFilePushdownInfo info(get.table_index, data.names, get.GetColumnIds(), get.extra_info);
		data.file_list = list->ByFilters(context, info, filters);
		MultiFileReader::PruneReaders(data, *data.file_list);
	}
}

void RaiseFor(ClientContext &context, LogicalOperator &plan) {
	for (auto &child : plan.children) {
		RaiseFor(context, *child);
	}
	if (plan.type == LogicalOperatorType::LOGICAL_GET && plan.Cast<LogicalGet>().function.init_global == Start) {
		auto list = ListOf(plan.Cast<LogicalGet>().bind_data.get());
		KeyLimit::Raise(context, list ? list->reference->files->size() : 0);
	}
}

std::string NextDatabase() {
	static std::atomic<uint64_t> last {0};
	return std::to_string(++last);
}

void Register(ExtensionLoader &loader) {
	auto database = NextDatabase();
	auto &entry = loader.GetTableFunction("parquet_scan");
	const auto &function = *entry.functions.GetFunctionByOffset(0); // the one of a single text
	original = {function.bind, function.init_global, function.statistics_extended, function.cardinality,
	            function.get_partition_stats};
	TableFunction scan = function;
	scan.name = "pruner_scan";
	scan.bind = Bind;
	scan.bind_replace = Replace;
	scan.init_global = Start;
	scan.statistics_extended = Statistics;
	scan.cardinality = Cardinality;
	scan.get_partition_stats = PartitionStats;
	scan.get_multi_file_reader = Reader::Create;
	scan.function_info = make_shared_ptr<BoundInfo>(database);
	loader.RegisterFunction(scan);
	ScalarFunction number("pruner_database", {}, LogicalType::VARCHAR,
	                      [database](DataChunk &arguments, ExpressionState &, Vector &result) {
		                      result.Reference(Value(database), count_t(arguments.size()));
	                      });
	loader.RegisterFunction(number);
	OptimizerExtension extension;
	extension.pre_optimize_function = [](OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
		AskAbove(input.context, *plan, true);
	};
	extension.optimize_function = [](OptimizerExtensionInput &input, unique_ptr<LogicalOperator> &plan) {
		RaiseFor(input.context, *plan);
		AskAbove(input.context, *plan, false);
	};
	OptimizerExtension::Register(DBConfig::GetConfig(loader.GetDatabaseInstance()), std::move(extension));
}

} // namespace

} // namespace pruner

extern "C" {
//! What this was built from.
__attribute__((visibility("default"))) const char *pruner_sources() {
	return PRUNER_SOURCES;
}

DUCKDB_CPP_EXTENSION_ENTRY(pruner, loader) {
	pruner::Register(loader);
}
}
