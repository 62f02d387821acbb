;; A plugin whose only hook returns whatever memory it is told to: the name of the tool in a call is hex, of which the first
;; four bytes are the pointer that the hook returns, and the rest is put at 32768 before it does. At 32000 stands a digit: how
;; often the instance was called.
(component
  (core module $code
    (memory (export "memory") 2)
    (data (i32.const 32000) "0")
    ;; Where the next block from the host goes; everything is forgotten after a call.
    (global $free (mut i32) (i32.const 65536))

    (func (export "realloc") (param i32 i32 i32 i32) (result i32)
      (local $at i32)
      (local.set $at
        (i32.and (i32.add (global.get $free) (i32.const 7)) (i32.const -8)))
      (global.set $free (i32.add (local.get $at) (local.get 3)))
      (local.get $at))

    ;; The value of one hex digit, 0 to 9 or a to f.
    (func $digit (param $at i32) (result i32)
      (local $c i32)
      (local.set $c (i32.load8_u (local.get $at)))
      (if (result i32) (i32.gt_u (local.get $c) (i32.const 57))
        (then (i32.sub (local.get $c) (i32.const 87)))
        (else (i32.sub (local.get $c) (i32.const 48)))))

    ;; The parameters are the parts of the call, one word each: the second text is the name.
    (func (export "run")
      (param $id i32) (param $id_length i32) (param $name i32) (param $name_length i32)
      (param $arguments i32) (param $arguments_length i32) (param $effect_class i32)
      (param $has_plugin i32) (param $plugin i32) (param $plugin_length i32)
      (result i32)
      (local $from i32)
      (local $end i32)
      (local $to i32)
      (local.set $from (local.get $name))
      (local.set $end (i32.add (local.get $name) (local.get $name_length)))
      (local.set $to (i32.const 32764))
      (block $done
        (loop $next
          (br_if $done (i32.ge_u (local.get $from) (local.get $end)))
          (i32.store8 (local.get $to)
            (i32.or
              (i32.shl (call $digit (local.get $from)) (i32.const 4))
              (call $digit (i32.add (local.get $from) (i32.const 1)))))
          (local.set $from (i32.add (local.get $from) (i32.const 2)))
          (local.set $to (i32.add (local.get $to) (i32.const 1)))
          (br $next)))
      (global.set $free (i32.const 65536))
      (i32.store8 (i32.const 32000)
        (i32.add (i32.load8_u (i32.const 32000)) (i32.const 1)))
      (i32.load (i32.const 32764))))
  (core instance $core (instantiate $code))

  ;; As in `wit/`. The function may only speak of types that have a name, so each is exported.
  (type $tool-call-type
    (record (field "id" string) (field "name" string) (field "arguments" string)))
  (export $tool-call "tool-call" (type $tool-call-type))
  (type $effect-class-type (enum "read" "write" "execute" "external"))
  (export $effect-class "effect-class" (type $effect-class-type))
  (type $plugin (option string))
  (type $proposed-call-type
    (record (field "call" $tool-call) (field "effect-class" $effect-class) (field "plugin" $plugin)))
  (export $proposed-call "proposed-call" (type $proposed-call-type))
  (type $call-verdict-type
    (variant (case "pass") (case "change" string) (case "ask" string) (case "block" string)))
  (export $call-verdict "call-verdict" (type $call-verdict-type))
  (type $level-type (enum "debug" "info" "warn" "error"))
  (export $level "level" (type $level-type))
  (type $log-line-type (record (field "level" $level) (field "text" string)))
  (export $log-line "log-line" (type $log-line-type))
  (type $metric-type (record (field "name" string) (field "value" f64)))
  (export $metric "metric" (type $metric-type))
  (type $stored-type (record (field "key" string) (field "value" string)))
  (export $stored "stored" (type $stored-type))
  (type $effect-type
    (variant (case "log" $log-line) (case "metric" $metric) (case "store" $stored) (case "notify" $log-line)))
  (export $effect "effect" (type $effect-type))
  (type $note (option string))
  (type $effects (list $effect))
  (type $call-outcome-type
    (record (field "verdict" $call-verdict) (field "note" $note) (field "effects" $effects)))
  (export $call-outcome "call-outcome" (type $call-outcome-type))
  (type $error-type
    (variant
      (case "invalid-input" string) (case "not-found" string) (case "denied" string) (case "limit" string)
      (case "failed" string)))
  (export $error "error" (type $error-type))

  (type $run
    (func (param "payload" $proposed-call)
      (result (result $call-outcome (error $error)))))
  (func $run (type $run)
    (canon lift (core func $core "run") (memory (core memory $core "memory")) (realloc (core func $core "realloc"))))
  (instance $pre-tool (export "run" (func $run)))
  (export "rind:plugin/pre-tool@0.1.0" (instance $pre-tool)))
