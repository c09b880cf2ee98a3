package io.txns.iceberg.simulation;

import java.util.Arrays;
import java.util.List;
import java.util.stream.Collectors;
import net.bytebuddy.jar.asm.Type;

/**
 * One protection of the protocol, taken away on purpose: the simulation has to notice it.
 *
 * @param name Python's, where the protection is the same
 * @param takenAway what no longer holds
 * @param targets what has to be another thing for that
 */
record Mutation(String name, String takenAway, List<Target> targets) {
  private static final String CORE = "io.txns.iceberg.";

  /** What a method or a call does from then on. */
  interface Body {
    /**
     * @param arguments the object first, where the method has one
     */
    Object of(Original original, Object[] arguments) throws Throwable;
  }

  /** What it has done before. */
  interface Original {
    Object of(Object... arguments) throws Throwable;
  }

  /**
   * A method with another body, or the calls in a method of another one; methods are named with
   * simple names of types, as {@code List run(Head, String)}.
   *
   * @param className within {@code io.txns.iceberg}
   * @param called calls of which method have the body; null: the method itself has it
   */
  record Target(String className, String method, String called, Body body) {
    /** Its class's whole name. */
    String inClass() {
      return CORE + className;
    }

    boolean isMethod() {
      return called == null;
    }

    /** What it is known by where several mutations have it. */
    String key() {
      return className + ": " + method + (isMethod() ? "" : ": " + called);
    }
  }

  static Mutation of(String name, String takenAway, Target... targets) {
    return new Mutation(name, takenAway, List.of(targets));
  }

  /** Another body of a method. */
  static Target method(String className, String method, Body body) {
    return new Target(className, method, null, body);
  }

  /** Another body of what a method calls, there alone; {@code called} begins with its class. */
  static Target call(String className, String method, String called, Body body) {
    return new Target(className, method, called, body);
  }

  /** A body that is not asked and gives this. */
  static Body answer(Object constant) {
    return (original, arguments) -> constant;
  }

  /** A body that does nothing. */
  static final Body NOTHING = answer(null);

  /** How a method is named in a target. */
  static String named(String method, String descriptor) {
    String arguments =
        Arrays.stream(Type.getArgumentTypes(descriptor))
            .map(Mutation::simple)
            .collect(Collectors.joining(", "));
    return simple(Type.getReturnType(descriptor)) + " " + method + "(" + arguments + ")";
  }

  /** How a call is named in a target. */
  static String named(String owner, String method, String descriptor) {
    return simple(Type.getObjectType(owner)) + ": " + named(method, descriptor);
  }

  private static String simple(Type type) {
    String name = type.getClassName();
    return name.substring(name.lastIndexOf('.') + 1).replace('$', '.');
  }
}
