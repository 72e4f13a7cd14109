package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.airlift.slice.Slice;
import io.trino.spi.block.Block;
import io.trino.spi.expression.Call;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Constant;
import io.trino.spi.expression.FieldDereference;
import io.trino.spi.expression.FunctionName;
import io.trino.spi.expression.StandardFunctions;
import io.trino.spi.expression.Variable;
import io.trino.spi.type.ArrayType;
import io.trino.spi.type.RowType;
import io.trino.spi.type.Type;
import io.trino.spi.type.TypeUtils;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;

/** An expression as a tree of JSON nodes; a part that is too large or has no form becomes `opaque` with its columns. */
final class ExpressionWriter {
    private static final String RESTATEMENT = "$engine_expression";
    private static final int NODES = 10_000;
    private static final int LEVELS = 200;
    private static final int TEXT = 200;

    /** Of a constant array; each becomes a node. */
    private static final int ELEMENTS = 1_000;

    private final Columns columns;
    private int nodes;

    ExpressionWriter(Columns columns) {
        this.columns = columns;
    }

    /**
     * The whole expression.
     *
     * <p>Trino adds the whole predicate once more, serialized for its own evaluator. It stands beside the predicate in this
     * form under an AND, or alone where nothing has this form: what only it says is read from there.
     */
    ObjectNode node(ConnectorExpression expression) {
        List<ConnectorExpression> parts = expression instanceof Call call
                        && call.getFunctionName().equals(StandardFunctions.AND_FUNCTION_NAME)
                ? call.getArguments()
                : List.of(expression);
        List<ObjectNode> found = new ArrayList<>();
        parts.stream().filter(part -> !isRestatement(part)).forEach(part -> found.add(node(part, 1)));
        parts.stream().filter(ExpressionWriter::isRestatement).forEach(part -> found.addAll(restated((Call) part)));
        if (found.size() < 2) {
            return found.isEmpty() ? node(expression, 0) : found.getFirst();
        }
        ObjectNode node = started("call", expression).put("function", "$and");
        found.forEach(node.putArray("arguments")::add);
        return node;
    }

    private List<ObjectNode> restated(Call call) {
        return !call.getArguments().isEmpty()
                        && call.getArguments().getFirst() instanceof Constant constant
                        && constant.getValue() instanceof Slice text
                ? Restatement.conditions(text.toStringUtf8(), columns)
                : List.of();
    }

    /** Whether an expression is only that, of a predicate without columns: it is there for scans without a predicate. */
    static boolean restatesNothing(ConnectorExpression expression) {
        return isRestatement(expression) && expression.getChildren().stream().allMatch(Constant.class::isInstance);
    }

    private static boolean isRestatement(ConnectorExpression expression) {
        return expression instanceof Call call && call.getFunctionName().getName().equals(RESTATEMENT);
    }

    private ObjectNode node(ConnectorExpression expression, int level) {
        if (++nodes > NODES || level > LEVELS) {
            return opaque(expression, "too large");
        }
        return switch (expression) {
            case Variable variable -> variable(variable);
            case Constant constant -> constant(constant);
            case Call call -> call(call, level);
            case FieldDereference field -> field(field, level);
            default -> opaque(expression, expression.getClass().getSimpleName());
        };
    }

    private ObjectNode variable(Variable variable) {
        String id = columns.id(variable.getName());
        return id == null
                ? opaque(variable, "not a column of this scan: " + variable.getName())
                : started("column", variable).put("column", id);
    }

    private ObjectNode constant(Constant constant) {
        if (constant.getType() instanceof ArrayType array && constant.getValue() instanceof Block listed) {
            return listed(constant, array.getElementType(), listed);
        }
        Object value = constant.getValue();
        Optional<JsonNode> written = value == null ? Optional.empty() : ValueWriter.value(constant.getType(), value);
        if (value != null && written.isEmpty()) {
            return opaque(constant, "a value of type " + constant.getType().getDisplayName());
        }
        ObjectNode node = started("constant", constant);
        node.set("value", written.orElse(JsonNodeFactory.instance.nullNode()));
        return node;
    }

    /** A constant array as the call of {@code $array} that it would be of other values. */
    private ObjectNode listed(Constant constant, Type type, Block values) {
        if (values.getPositionCount() > ELEMENTS || (nodes += values.getPositionCount()) > NODES) {
            return opaque(constant, "an array that is too large");
        }
        ObjectNode node = started("call", constant).put("function", "$array");
        ArrayNode arguments = node.putArray("arguments");
        for (int at = 0; at < values.getPositionCount(); at++) {
            arguments.add(constant(new Constant(TypeUtils.readNativeValue(type, values, at), type)));
        }
        return node;
    }

    private ObjectNode call(Call call, int level) {
        if (isRestatement(call)) {
            return opaque(call, "what only Trino itself can evaluate");
        }
        FunctionName name = call.getFunctionName();
        ObjectNode node = started("call", call).put("function", name.getName());
        name.getCatalogSchema()
                .ifPresent(schema -> node.put("schema", schema.getCatalogName() + "." + schema.getSchemaName()));
        ArrayNode arguments = node.putArray("arguments");
        call.getArguments().forEach(argument -> arguments.add(node(argument, level + 1)));
        return node;
    }

    private ObjectNode field(FieldDereference field, int level) {
        ObjectNode node = started("field", field).put("index", field.getField());
        Optional<String> name = field.getTarget().getType() instanceof RowType row
                ? row.getFields().get(field.getField()).getName()
                : Optional.empty();
        node.put("name", name.orElse(null));
        node.set("target", node(field.getTarget(), level + 1));
        return node;
    }

    private ObjectNode opaque(ConnectorExpression expression, String text) {
        ObjectNode node = started("opaque", expression).put("text", text.substring(0, Math.min(text.length(), TEXT)));
        ArrayNode list = node.putArray("columns");
        columnsUnder(expression).forEach(list::add);
        return node;
    }

    private Set<String> columnsUnder(ConnectorExpression expression) {
        Set<String> found = new TreeSet<>();
        Deque<ConnectorExpression> open = new ArrayDeque<>(Set.of(expression));
        while (!open.isEmpty()) {
            ConnectorExpression next = open.pop();
            if (next instanceof Variable variable && columns.id(variable.getName()) instanceof String id) {
                found.add(id);
            }
            open.addAll(next.getChildren());
        }
        return found;
    }

    private static ObjectNode started(String kind, ConnectorExpression expression) {
        return JsonNodeFactory.instance
                .objectNode()
                .put("node", kind)
                .put("type", expression.getType().getDisplayName());
    }
}
