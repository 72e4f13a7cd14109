package pruner.spark.statements;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;

/** What goes to the planner as JSON. Jackson learns how to write a class once for each mapper, so there is one. */
public final class Json {
  private static final ObjectMapper MAPPER = new ObjectMapper();

  private Json() {}

  public static String of(Object value) throws IOException {
    return MAPPER.writeValueAsString(value);
  }
}
