package io.txns.iceberg.simulation;

import static net.bytebuddy.jar.asm.Opcodes.ASM9;
import static net.bytebuddy.jar.asm.Opcodes.H_INVOKESTATIC;
import static net.bytebuddy.jar.asm.Opcodes.INVOKESTATIC;

import java.util.Arrays;
import java.util.Map;
import java.util.Set;
import net.bytebuddy.jar.asm.ClassReader;
import net.bytebuddy.jar.asm.ClassVisitor;
import net.bytebuddy.jar.asm.ClassWriter;
import net.bytebuddy.jar.asm.Handle;
import net.bytebuddy.jar.asm.MethodVisitor;

/**
 * Puts calls of {@link Replacements} in the place of those that would ask the machine: for time,
 * randomness, threads, and for sets and maps whose order is another one in each JVM.
 */
final class Rewriting extends ClassVisitor {
  private static final String OWN = "io.txns.iceberg.simulation.";
  private static final String REPLACEMENTS = OWN.replace('.', '/') + "Replacements";

  /** Static methods whose replacements have the same name and descriptor. */
  private static final Map<String, Set<String>> REPLACED =
      Map.of(
          "java/lang/System", Set.of("currentTimeMillis", "nanoTime"),
          "java/lang/Thread", Set.of("sleep"),
          "java/lang/Math", Set.of("random"),
          "java/util/UUID", Set.of("randomUUID"),
          "java/util/Set", Set.of("copyOf"),
          "java/util/Map", Set.of("copyOf", "ofEntries"),
          "java/util/stream/Collectors", Set.of("toUnmodifiableSet", "toUnmodifiableMap"),
          "java/util/concurrent/Executors",
              Set.of(
                  "newFixedThreadPool",
                  "newCachedThreadPool",
                  "newSingleThreadExecutor",
                  "newScheduledThreadPool",
                  "newSingleThreadScheduledExecutor"));

  /** What lists its elements, in as many overloads as there may be: collected when it is linked. */
  private static final Set<String> LISTING = Set.of("java/util/Set", "java/util/Map");

  private static final Handle COLLECTING =
      new Handle(
          H_INVOKESTATIC,
          REPLACEMENTS,
          "collecting",
          "(Ljava/lang/invoke/MethodHandles$Lookup;Ljava/lang/String;"
              + "Ljava/lang/invoke/MethodType;)Ljava/lang/invoke/CallSite;",
          false);

  private static final String THREAD_RANDOM = "java/util/concurrent/ThreadLocalRandom";

  private String className;

  private Rewriting(ClassVisitor next) {
    super(ASM9, next);
  }

  /** Whether a class is one that asks the machine, and that the simulation is about. */
  static boolean concerns(String className) {
    return className.startsWith("org.apache.iceberg.")
        || (className.startsWith("io.txns.iceberg.") && !className.startsWith(OWN))
        || className.equals("org.apache.avro.file.DataFileWriter"); // marks blocks at random
  }

  /** A class file, rewritten. */
  static byte[] of(byte[] code) {
    ClassReader reader = new ClassReader(code);
    ClassWriter writer = new ClassWriter(reader, 0);
    reader.accept(new Rewriting(writer), 0);
    return writer.toByteArray();
  }

  @Override
  public void visit(
      int version, int access, String name, String signature, String parent, String[] interfaces) {
    className = name;
    super.visit(version, access, name, signature, parent, interfaces);
  }

  @Override
  public MethodVisitor visitMethod(
      int access, String name, String descriptor, String signature, String[] exceptions) {
    return new Calls(super.visitMethod(access, name, descriptor, signature, exceptions));
  }

  /** Where a busy wait of Iceberg's waits for other threads: there are none. */
  private boolean waitsForThreads() {
    return className.startsWith("org/apache/iceberg/util/ParallelIterable");
  }

  private final class Calls extends MethodVisitor {
    private Calls(MethodVisitor next) {
      super(ASM9, next);
    }

    @Override
    public void visitMethodInsn(
        int opcode, String owner, String name, String descriptor, boolean isInterface) {
      if (opcode == INVOKESTATIC && LISTING.contains(owner) && name.equals("of")) {
        super.visitInvokeDynamicInsn(name, descriptor, COLLECTING);
      } else if (opcode == INVOKESTATIC && isReplaced(owner, name)) {
        replace(name.equals("sleep") && waitsForThreads() ? "pass" : name, descriptor);
      } else if (owner.equals("java/util/concurrent/TimeUnit") && name.equals("sleep")) {
        replace(name, "(Ljava/util/concurrent/TimeUnit;J)V");
      } else if (owner.equals("java/security/SecureRandom") && name.equals("nextBytes")) {
        replace(name, "(Ljava/security/SecureRandom;[B)V");
      } else if (opcode == INVOKESTATIC && owner.equals("java/time/Instant")) {
        replaceInstant(opcode, owner, name, descriptor);
      } else if (opcode == INVOKESTATIC && owner.equals(THREAD_RANDOM)) {
        replace("random", "()Ljava/util/Random;");
      } else {
        String target = owner.equals(THREAD_RANDOM) ? "java/util/Random" : owner;
        super.visitMethodInsn(opcode, target, name, descriptor, isInterface);
      }
    }

    private void replaceInstant(int opcode, String owner, String name, String descriptor) {
      if (name.equals("now")) {
        replace(name, descriptor);
      } else {
        super.visitMethodInsn(opcode, owner, name, descriptor, false);
      }
    }

    private void replace(String name, String descriptor) {
      super.visitMethodInsn(INVOKESTATIC, REPLACEMENTS, name, descriptor, false);
    }

    @Override
    public void visitInvokeDynamicInsn(
        String name, String descriptor, Handle bootstrap, Object... arguments) {
      Object[] replaced = Arrays.stream(arguments).map(Rewriting::replaced).toArray();
      super.visitInvokeDynamicInsn(name, descriptor, bootstrap, replaced);
    }
  }

  private static boolean isReplaced(String owner, String name) {
    return REPLACED.getOrDefault(owner, Set.of()).contains(name);
  }

  /** References to methods, as {@code UUID::randomUUID}. */
  private static Object replaced(Object argument) {
    if (!(argument instanceof Handle handle) || handle.getTag() != H_INVOKESTATIC) {
      return argument;
    }
    boolean lists = LISTING.contains(handle.getOwner()) && handle.getName().equals("of");
    if (lists && !handle.getDesc().startsWith("()")) {
      throw new IllegalStateException("no replacement for a reference to " + handle);
    }
    return isReplaced(handle.getOwner(), handle.getName())
        ? new Handle(H_INVOKESTATIC, REPLACEMENTS, handle.getName(), handle.getDesc(), false)
        : argument;
  }
}
