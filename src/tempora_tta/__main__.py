from tempora_tta.cli import main

main()
