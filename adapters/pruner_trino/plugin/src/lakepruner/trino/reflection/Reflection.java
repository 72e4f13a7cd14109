package lakepruner.trino.reflection;

import java.lang.reflect.Field;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;

/** Getters of the connectors' classes, which this plugin is built without. */
public final class Reflection {
    private record Getter(Class<?> type, String name) {}

    private static final Map<Getter, Optional<Method>> GETTERS = new ConcurrentHashMap<>();

    private Reflection() {}

    /** What a getter says; an error where there is none. */
    public static Object get(Object object, String name) {
        return find(object, name)
                .orElseThrow(() -> new IllegalStateException(object.getClass().getName() + " has no " + name));
    }

    /** What a getter says, with what is inside an optional; empty for null, an empty optional, or where there is none. */
    public static Optional<Object> find(Object object, String name) {
        Optional<Method> getter = GETTERS.computeIfAbsent(new Getter(object.getClass(), name), Reflection::lookUp);
        if (getter.isEmpty()) {
            return Optional.empty();
        }
        try {
            Object value = getter.get().invoke(object);
            return value instanceof Optional<?> optional ? optional.map(Object.class::cast) : Optional.ofNullable(value);
        } catch (IllegalAccessException | InvocationTargetException error) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " fails", error);
        }
    }

    /** What a method says that need not be public; an error where there is none. */
    public static Object invoke(Object object, String name, Class<?>[] types, Object... arguments) {
        try {
            Method method = object.getClass().getDeclaredMethod(name, types);
            method.setAccessible(true);
            return method.invoke(object, arguments);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " fails", error);
        }
    }

    /** What is in a field; empty where there is none. */
    public static Optional<Object> field(Object object, String name) {
        try {
            Field field = object.getClass().getDeclaredField(name);
            field.setAccessible(true);
            return Optional.ofNullable(field.get(object));
        } catch (NoSuchFieldException error) {
            return Optional.empty();
        } catch (IllegalAccessException error) {
            throw new IllegalStateException(object.getClass().getName() + "." + name + " cannot be read", error);
        }
    }

    public static boolean has(Object object, String name) {
        return GETTERS.computeIfAbsent(new Getter(object.getClass(), name), Reflection::lookUp).isPresent();
    }

    public static Object create(Class<?> type, Class<?> first, Class<?> second, Object... arguments) {
        try {
            return type.getConstructor(first, second).newInstance(arguments);
        } catch (ReflectiveOperationException error) {
            throw new IllegalStateException("cannot make a " + type.getName(), error);
        }
    }

    private static Optional<Method> lookUp(Getter getter) {
        try {
            Method method = getter.type().getMethod(getter.name());
            method.setAccessible(true);
            return Optional.of(method);
        } catch (NoSuchMethodException error) {
            return Optional.empty();
        }
    }
}
