package lakepruner.trino.predicates;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.LongNode;
import com.fasterxml.jackson.databind.node.TextNode;
import io.airlift.slice.Slice;
import io.trino.spi.type.BigintType;
import io.trino.spi.type.BooleanType;
import io.trino.spi.type.CharType;
import io.trino.spi.type.DateTimeEncoding;
import io.trino.spi.type.DateType;
import io.trino.spi.type.DecimalType;
import io.trino.spi.type.Decimals;
import io.trino.spi.type.DoubleType;
import io.trino.spi.type.Int128;
import io.trino.spi.type.IntegerType;
import io.trino.spi.type.LongTimestamp;
import io.trino.spi.type.LongTimestampWithTimeZone;
import io.trino.spi.type.RealType;
import io.trino.spi.type.SmallintType;
import io.trino.spi.type.TimestampType;
import io.trino.spi.type.TimestampWithTimeZoneType;
import io.trino.spi.type.TinyintType;
import io.trino.spi.type.Type;
import io.trino.spi.type.VarbinaryType;
import io.trino.spi.type.VarcharType;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.Optional;

/** Values as JSON by their type, from the form in which Trino holds them; empty for what has no form. */
final class ValueWriter {
    private static final int PICOS_PER_MICRO = 1_000_000;

    private ValueWriter() {}

    static Optional<JsonNode> value(Type type, Object value) {
        return switch (type) {
            case BooleanType ignored -> Optional.of(BooleanNode.valueOf((boolean) value));
            case TinyintType ignored -> integer(value);
            case SmallintType ignored -> integer(value);
            case IntegerType ignored -> integer(value);
            case BigintType ignored -> integer(value);
            case DateType ignored -> integer(value);
            case RealType ignored -> text(Float.toString(Float.intBitsToFloat((int) (long) value)));
            case DoubleType ignored -> text(Double.toString((double) value));
            case DecimalType decimal -> text(decimal(decimal, value));
            case VarcharType ignored -> utf8((Slice) value);
            case CharType ignored -> utf8((Slice) value);
            case VarbinaryType ignored -> text(Base64.getEncoder().encodeToString(((Slice) value).getBytes()));
            case TimestampType ignored -> timestamp(value);
            case TimestampWithTimeZoneType ignored -> instant(value);
            default -> isInterval(type) ? integer(value) : Optional.empty();
        };
    }

    /** Whether a type is one of the intervals, of milliseconds or of months, whose classes are not part of the SPI. */
    private static boolean isInterval(Type type) {
        return type.getDisplayName().startsWith("interval ") && type.getJavaType() == long.class;
    }

    private static Optional<JsonNode> integer(Object value) {
        return Optional.of(LongNode.valueOf((long) value));
    }

    private static Optional<JsonNode> text(String value) {
        return Optional.of(TextNode.valueOf(value));
    }

    private static Optional<JsonNode> utf8(Slice value) {
        try {
            ByteBuffer bytes = ByteBuffer.wrap(value.getBytes());
            return text(StandardCharsets.UTF_8.newDecoder().decode(bytes).toString());
        } catch (CharacterCodingException error) {
            return Optional.empty();
        }
    }

    private static String decimal(DecimalType type, Object value) {
        return value instanceof Int128 large
                ? Decimals.toString(large, type.getScale())
                : Decimals.toString((long) value, type.getScale());
    }

    private static Optional<JsonNode> timestamp(Object value) {
        return value instanceof LongTimestamp exact
                ? moment(exact.getEpochMicros(), exact.getPicosOfMicro())
                : moment((long) value, 0);
    }

    private static Optional<JsonNode> instant(Object value) {
        if (value instanceof LongTimestampWithTimeZone exact) {
            long micros = Math.addExact(
                    Math.multiplyExact(exact.getEpochMillis(), 1000), exact.getPicosOfMilli() / PICOS_PER_MICRO);
            return moment(micros, exact.getPicosOfMilli() % PICOS_PER_MICRO);
        }
        return moment(Math.multiplyExact(DateTimeEncoding.unpackMillisUtc((long) value), 1000), 0);
    }

    private static Optional<JsonNode> moment(long micros, int picos) {
        return Optional.of(JsonNodeFactory.instance.objectNode().put("micros", micros).put("picos", picos));
    }
}
