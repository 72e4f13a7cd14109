package lakepruner.trino;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.trino.spi.expression.Call;
import io.trino.spi.expression.ConnectorExpression;
import io.trino.spi.expression.Constant;
import io.trino.spi.expression.FieldDereference;
import io.trino.spi.expression.FunctionName;
import io.trino.spi.expression.StandardFunctions;
import io.trino.spi.expression.Variable;
import io.trino.spi.type.RowType;
import java.util.ArrayDeque;
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

    private final Columns columns;
    private int nodes;

    ExpressionWriter(Columns columns) {
        this.columns = columns;
    }

    ObjectNode node(ConnectorExpression expression) {
        return node(withoutRestatement(expression), 0);
    }

    /**
     * Leaves out what newer versions of Trino add: the whole predicate once more, serialized for its own evaluator.
     * It stands beside the predicate in this form under an AND, so nothing that is needed goes; alone it becomes opaque.
     */
    private static ConnectorExpression withoutRestatement(ConnectorExpression expression) {
        if (!(expression instanceof Call call) || !call.getFunctionName().equals(StandardFunctions.AND_FUNCTION_NAME)) {
            return expression;
        }
        List<ConnectorExpression> others =
                call.getArguments().stream().filter(argument -> !isRestatement(argument)).toList();
        if (others.isEmpty() || others.size() == call.getArguments().size()) {
            return expression;
        }
        return others.size() == 1 ? others.getFirst() : new Call(call.getType(), call.getFunctionName(), others);
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
        Object value = constant.getValue();
        Optional<JsonNode> written = value == null ? Optional.empty() : ValueWriter.value(constant.getType(), value);
        if (value != null && written.isEmpty()) {
            return opaque(constant, "a value of type " + constant.getType().getDisplayName());
        }
        ObjectNode node = started("constant", constant);
        node.set("value", written.orElse(JsonNodeFactory.instance.nullNode()));
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
