;; Rows of text to columns of numbers: the loop of number_rows.py, which says what stands where in memory.
;;
;; A number of at most 19 digits is an integer times a power of ten. Below 2^53 and up to 10^22 one multiplication or
;; division of doubles rounds it right. Else the integer is multiplied by the first 128 bits of the power of ten, which
;; settles the rounding. Source: D. Lemire, "Number parsing at a gigabyte per second", Software: Practice and
;; Experience 51 (2021). What is left over (nan, inf, more digits, what is no normal double) is not taken.
(module
  (memory (export "memory") 1)

  ;; The high 64 bits of the product of two numbers of 64 bits.
  (func $high (param $a i64) (param $b i64) (result i64)
    (local $al i64) (local $ah i64) (local $bl i64) (local $bh i64) (local $p1 i64) (local $p2 i64)
    (local.set $al (i64.and (local.get $a) (i64.const 0xffffffff)))
    (local.set $ah (i64.shr_u (local.get $a) (i64.const 32)))
    (local.set $bl (i64.and (local.get $b) (i64.const 0xffffffff)))
    (local.set $bh (i64.shr_u (local.get $b) (i64.const 32)))
    (local.set $p1 (i64.mul (local.get $al) (local.get $bh)))
    (local.set $p2 (i64.mul (local.get $ah) (local.get $bl)))
    (i64.add
      (i64.add
        (i64.mul (local.get $ah) (local.get $bh))
        (i64.add (i64.shr_u (local.get $p1) (i64.const 32)) (i64.shr_u (local.get $p2) (i64.const 32))))
      (i64.shr_u
        (i64.add
          (i64.shr_u (i64.mul (local.get $al) (local.get $bl)) (i64.const 32))
          (i64.add
            (i64.and (local.get $p1) (i64.const 0xffffffff))
            (i64.and (local.get $p2) (i64.const 0xffffffff))))
        (i64.const 32))))

  ;; The bits of the double nearest to w * 10^q, w not 0; -1 where it is no normal double.
  (func $round (param $w i64) (param $q i32) (result i64)
    (local $lead i64) (local $at i32) (local $hi i64) (local $lo i64) (local $more i64)
    (local $up i64) (local $m i64) (local $e i64)
    (if (i32.or (i32.lt_s (local.get $q) (i32.const -342)) (i32.gt_s (local.get $q) (i32.const 308)))
      (then (return (i64.const -1))))
    (local.set $lead (i64.clz (local.get $w)))
    (local.set $w (i64.shl (local.get $w) (local.get $lead)))
    (local.set $at (i32.add (i32.const 1024) (i32.shl (i32.add (local.get $q) (i32.const 342)) (i32.const 4))))
    (local.set $hi (call $high (local.get $w) (i64.load (local.get $at))))
    (local.set $lo (i64.mul (local.get $w) (i64.load (local.get $at))))
    (if (i64.eq (i64.and (local.get $hi) (i64.const 0x1ff)) (i64.const 0x1ff))
      (then
        (local.set $more (call $high (local.get $w) (i64.load offset=8 (local.get $at))))
        (local.set $lo (i64.add (local.get $lo) (local.get $more)))
        (if (i64.gt_u (local.get $more) (local.get $lo))
          (then (local.set $hi (i64.add (local.get $hi) (i64.const 1)))))))
    (if (i32.and
          (i64.eq (local.get $lo) (i64.const -1))
          (i32.or (i32.lt_s (local.get $q) (i32.const -27)) (i32.gt_s (local.get $q) (i32.const 55))))
      (then (return (i64.const -1))))
    (local.set $up (i64.shr_u (local.get $hi) (i64.const 63)))
    (local.set $m (i64.shr_u (local.get $hi) (i64.add (local.get $up) (i64.const 9))))
    (local.set $e
      (i64.sub
        (i64.add
          (i64.extend_i32_s (i32.shr_s (i32.mul (i32.const 217706) (local.get $q)) (i32.const 16)))
          (i64.add (i64.const 1086) (local.get $up)))
        (local.get $lead)))
    (if (i64.le_s (local.get $e) (i64.const 0)) (then (return (i64.const -1))))
    ;; exactly between two doubles: to the even one
    (if (i32.and
          (i32.and
            (i64.le_u (local.get $lo) (i64.const 1))
            (i32.and (i32.ge_s (local.get $q) (i32.const -4)) (i32.le_s (local.get $q) (i32.const 23))))
          (i32.and
            (i64.eq (i64.and (local.get $m) (i64.const 3)) (i64.const 1))
            (i64.eq (i64.shl (local.get $m) (i64.add (local.get $up) (i64.const 9))) (local.get $hi))))
      (then (local.set $m (i64.and (local.get $m) (i64.const -2)))))
    (local.set $m
      (i64.shr_u (i64.add (local.get $m) (i64.and (local.get $m) (i64.const 1))) (i64.const 1)))
    (if (i64.ge_u (local.get $m) (i64.const 0x20000000000000))
      (then
        (local.set $m (i64.const 0x10000000000000))
        (local.set $e (i64.add (local.get $e) (i64.const 1)))))
    (if (i64.ge_s (local.get $e) (i64.const 2047)) (then (return (i64.const -1))))
    (i64.or
      (i64.and (local.get $m) (i64.const 0xfffffffffffff))
      (i64.shl (local.get $e) (i64.const 52))))

  ;; Read rows of text; column after column goes to $out, eight bytes a value. The number of rows read: less than $rows
  ;; where one is not plain. $pieces has three i32 for each piece of the text: how many rows there are up to its end,
  ;; where it begins, and where it has to end.
  (func (export "rows")
    (param $pieces i32) (param $rows i32) (param $columns i32) (param $out i32) (result i32)
    (local $p i32) (local $until i32) (local $row i32) (local $column i32) (local $kind i32) (local $o i32) (local $step i32)
    (local $c i32) (local $d i32) (local $minus i32) (local $start i32) (local $point i32) (local $n i32) (local $q i32)
    (local $e i32) (local $sign i32) (local $w i64) (local $v i64) (local $mask i64) (local $x f64)
    (local.set $until (i32.load (local.get $pieces)))
    (local.set $p (i32.load offset=4 (local.get $pieces)))
    (local.set $step (i32.shl (local.get $rows) (i32.const 3)))
    (block $stop
      (loop $next_row
        (br_if $stop (i32.ge_u (local.get $row) (local.get $rows)))
        (if (i32.eq (local.get $row) (local.get $until))
          (then
            (br_if $stop (i32.ne (local.get $p) (i32.load offset=8 (local.get $pieces))))
            (local.set $pieces (i32.add (local.get $pieces) (i32.const 12)))
            (local.set $until (i32.load (local.get $pieces)))
            (local.set $p (i32.load offset=4 (local.get $pieces)))))
        (local.set $column (i32.const 0))
        (local.set $o (i32.add (local.get $out) (i32.shl (local.get $row) (i32.const 3))))
        (loop $next_column
          (local.set $kind (i32.load8_u offset=12288 (local.get $column)))
          (local.set $c (i32.load8_u (local.get $p)))
          (loop $blank
            (if (i32.eq (local.get $c) (i32.const 32))
              (then
                (local.set $p (i32.add (local.get $p) (i32.const 1)))
                (local.set $c (i32.load8_u (local.get $p)))
                (if (i32.eq (local.get $c) (i32.const 32))
                  (then
                    ;; of eight bytes, those before the first that is no blank
                    (local.set $v (i64.xor (i64.load (local.get $p)) (i64.const 0x2020202020202020)))
                    (local.set $p
                      (i32.add (local.get $p) (i32.wrap_i64 (i64.shr_u (i64.ctz (local.get $v)) (i64.const 3)))))
                    (local.set $c (i32.load8_u (local.get $p)))))
                (br $blank)))
            (if (i32.eq (local.get $c) (i32.const 9))
              (then
                (local.set $p (i32.add (local.get $p) (i32.const 1)))
                (local.set $c (i32.load8_u (local.get $p)))
                (br $blank))))
          (local.set $w (i64.const 0))
          (block $done
            (block $text
              (br_if $text (i32.gt_u (local.get $kind) (i32.const 1)))
              (local.set $minus (i32.eq (local.get $c) (i32.const 45)))
              (local.set $p (i32.add (local.get $p) (local.get $minus)))
              (local.set $start (local.get $p))
              (loop $digit
                ;; eight bytes at once: how many of them are digits, and the number they make
                (local.set $v (i64.xor (i64.load (local.get $p)) (i64.const 0x3030303030303030)))
                (local.set $mask
                  (i64.and
                    (i64.or (i64.add (local.get $v) (i64.const 0x7676767676767676)) (local.get $v))
                    (i64.const 0x8080808080808080)))
                (local.set $d (i32.wrap_i64 (i64.shr_u (i64.ctz (local.get $mask)) (i64.const 3))))
                (if (local.get $d)
                  (then
                    (local.set $v
                      (i64.shl (local.get $v) (i64.extend_i32_u (i32.sub (i32.const 64) (i32.shl (local.get $d) (i32.const 3))))))
                    (local.set $v
                      (i64.and
                        (i64.shr_u (i64.mul (local.get $v) (i64.const 2561)) (i64.const 8))
                        (i64.const 0x00ff00ff00ff00ff)))
                    (local.set $v
                      (i64.and
                        (i64.shr_u (i64.mul (local.get $v) (i64.const 6553601)) (i64.const 16))
                        (i64.const 0x0000ffff0000ffff)))
                    (local.set $w
                      (i64.add
                        (i64.mul (local.get $w) (i64.load offset=256 (i32.shl (local.get $d) (i32.const 3))))
                        (i64.shr_u (i64.mul (local.get $v) (i64.const 42949672960001)) (i64.const 32))))
                    (local.set $p (i32.add (local.get $p) (local.get $d)))
                    (br_if $digit (i32.eq (local.get $d) (i32.const 8))))))
              (local.set $c (i32.load8_u (local.get $p)))
              (local.set $n (i32.sub (local.get $p) (local.get $start)))
              (br_if $stop (i32.eqz (local.get $n)))
              (if (local.get $kind)
                (then
                  ;; an integer
                  (br_if $stop (i32.gt_u (local.get $n) (i32.const 18)))
                  (local.set $w
                    (select (i64.sub (i64.const 0) (local.get $w)) (local.get $w) (local.get $minus)))
                  (i64.store (local.get $o) (local.get $w))
                  (br $done)))
              (local.set $q (i32.const 0))
              (if (i32.eq (local.get $c) (i32.const 46))
                (then
                  (local.set $p (i32.add (local.get $p) (i32.const 1)))
                  (local.set $point (local.get $p))
                  (loop $digit
                    ;; eight bytes at once: how many of them are digits, and the number they make
                    (local.set $v (i64.xor (i64.load (local.get $p)) (i64.const 0x3030303030303030)))
                    (local.set $mask
                      (i64.and
                        (i64.or (i64.add (local.get $v) (i64.const 0x7676767676767676)) (local.get $v))
                        (i64.const 0x8080808080808080)))
                    (local.set $d (i32.wrap_i64 (i64.shr_u (i64.ctz (local.get $mask)) (i64.const 3))))
                    (if (local.get $d)
                      (then
                        (local.set $v
                          (i64.shl (local.get $v) (i64.extend_i32_u (i32.sub (i32.const 64) (i32.shl (local.get $d) (i32.const 3))))))
                        (local.set $v
                          (i64.and
                            (i64.shr_u (i64.mul (local.get $v) (i64.const 2561)) (i64.const 8))
                            (i64.const 0x00ff00ff00ff00ff)))
                        (local.set $v
                          (i64.and
                            (i64.shr_u (i64.mul (local.get $v) (i64.const 6553601)) (i64.const 16))
                            (i64.const 0x0000ffff0000ffff)))
                        (local.set $w
                          (i64.add
                            (i64.mul (local.get $w) (i64.load offset=256 (i32.shl (local.get $d) (i32.const 3))))
                            (i64.shr_u (i64.mul (local.get $v) (i64.const 42949672960001)) (i64.const 32))))
                        (local.set $p (i32.add (local.get $p) (local.get $d)))
                        (br_if $digit (i32.eq (local.get $d) (i32.const 8))))))
                  (local.set $c (i32.load8_u (local.get $p)))
                  (local.set $q (i32.sub (local.get $point) (local.get $p)))
                  (local.set $n (i32.sub (local.get $n) (local.get $q)))))
              (if (i32.gt_u (local.get $n) (i32.const 19))
                (then
                  ;; zeros in front do not count
                  (loop $zero
                    (local.set $d (i32.load8_u (local.get $start)))
                    (if (i32.or (i32.eq (local.get $d) (i32.const 48)) (i32.eq (local.get $d) (i32.const 46)))
                      (then
                        (local.set $n (i32.sub (local.get $n) (i32.eq (local.get $d) (i32.const 48))))
                        (local.set $start (i32.add (local.get $start) (i32.const 1)))
                        (br $zero))))
                  (br_if $stop (i32.gt_s (local.get $n) (i32.const 19)))))
              (if (i32.eq (i32.or (local.get $c) (i32.const 32)) (i32.const 101))
                (then
                  (local.set $p (i32.add (local.get $p) (i32.const 1)))
                  (local.set $c (i32.load8_u (local.get $p)))
                  (local.set $sign (i32.eq (local.get $c) (i32.const 45)))
                  (local.set $p
                    (i32.add
                      (local.get $p)
                      (i32.or (local.get $sign) (i32.eq (local.get $c) (i32.const 43)))))
                  (local.set $start (local.get $p))
                  (local.set $e (i32.const 0))
                  (block $digits
                    (loop $digit
                      (local.set $d (i32.sub (i32.load8_u (local.get $p)) (i32.const 48)))
                      (br_if $digits (i32.gt_u (local.get $d) (i32.const 9)))
                      (local.set $e (i32.add (i32.mul (local.get $e) (i32.const 10)) (local.get $d)))
                      (local.set $p (i32.add (local.get $p) (i32.const 1)))
                      (br $digit)))
                  (local.set $c (i32.add (local.get $d) (i32.const 48)))
                  (local.set $n (i32.sub (local.get $p) (local.get $start)))
                  (br_if $stop (i32.or (i32.eqz (local.get $n)) (i32.gt_u (local.get $n) (i32.const 8))))
                  (local.set $q
                    (i32.add
                      (local.get $q)
                      (select (i32.sub (i32.const 0) (local.get $e)) (local.get $e) (local.get $sign))))))
              (if (i64.eqz (local.get $w))
                (then (local.set $x (f64.const 0)))
                (else
                  (if (i32.and
                        (i64.le_u (local.get $w) (i64.const 0x20000000000000))
                        (i32.le_u (i32.add (local.get $q) (i32.const 22)) (i32.const 44)))
                    (then
                      (local.set $x (f64.convert_i64_u (local.get $w)))
                      (if (i32.lt_s (local.get $q) (i32.const 0))
                        (then
                          (local.set $x
                            (f64.div
                              (local.get $x)
                              (f64.load (i32.shl (i32.sub (i32.const 0) (local.get $q)) (i32.const 3))))))
                        (else
                          (local.set $x
                            (f64.mul (local.get $x) (f64.load (i32.shl (local.get $q) (i32.const 3))))))))
                    (else
                      (local.set $w (call $round (local.get $w) (local.get $q)))
                      (br_if $stop (i64.eq (local.get $w) (i64.const -1)))
                      (local.set $x (f64.reinterpret_i64 (local.get $w)))))))
              (i64.store
                (local.get $o)
                (i64.or
                  (i64.reinterpret_f64 (local.get $x))
                  (i64.shl (i64.extend_i32_u (local.get $minus)) (i64.const 63))))
              (br $done))
            ;; a word: its bytes are kept where they are asked for and at most eight
            (local.set $n (i32.const 0))
            (block $bytes
              (loop $byte
                (br_if $bytes (i32.le_u (local.get $c) (i32.const 32)))
                (if (i32.eq (local.get $kind) (i32.const 2))
                  (then
                    (br_if $stop (i32.gt_u (local.get $n) (i32.const 7)))
                    (local.set $w
                      (i64.or
                        (local.get $w)
                        (i64.shl
                          (i64.extend_i32_u (local.get $c))
                          (i64.extend_i32_u (i32.shl (local.get $n) (i32.const 3))))))))
                (local.set $n (i32.add (local.get $n) (i32.const 1)))
                (local.set $p (i32.add (local.get $p) (i32.const 1)))
                (local.set $c (i32.load8_u (local.get $p)))
                (br $byte)))
            (br_if $stop (i32.eqz (local.get $n)))
            (if (i32.eq (local.get $kind) (i32.const 2)) (then (i64.store (local.get $o) (local.get $w)))))
          (if (i32.lt_u (local.get $kind) (i32.const 3))
            (then (local.set $o (i32.add (local.get $o) (local.get $step)))))
          (local.set $column (i32.add (local.get $column) (i32.const 1)))
          (if (i32.lt_u (local.get $column) (local.get $columns))
            (then
              (br_if $next_column (i32.eq (local.get $c) (i32.const 32)))
              (br_if $next_column (i32.eq (local.get $c) (i32.const 9)))
              (br $stop))))
        (loop $rest
          (if (i32.or
                (i32.or (i32.eq (local.get $c) (i32.const 32)) (i32.eq (local.get $c) (i32.const 9)))
                (i32.eq (local.get $c) (i32.const 13)))
            (then
              (local.set $p (i32.add (local.get $p) (i32.const 1)))
              (local.set $c (i32.load8_u (local.get $p)))
              (br $rest))))
        (br_if $stop (i32.ne (local.get $c) (i32.const 10)))
        (local.set $p (i32.add (local.get $p) (i32.const 1)))
        (local.set $row (i32.add (local.get $row) (i32.const 1)))
        (br $next_row)))
    (select
      (local.get $row)
      (i32.const -1)
      (i32.eq (local.get $p) (i32.load offset=8 (local.get $pieces)))))
)
